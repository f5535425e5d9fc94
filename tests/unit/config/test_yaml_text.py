import pytest

from headrace.config.yaml_text import dump_yaml, parse_yaml
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),  # YAML 1.1 reads this as text
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("010", "010"),  # YAML 1.1 reads 8
        ("1:30", "1:30"),  # YAML 1.1 reads 90
        ("2024-01-01", "2024-01-01"),  # YAML 1.1 builds a date
        ("'1e5'", "1e5"),
        ("1e-5x", "1e-5x"),
        ("true", True),
        ("null", None),
    ],
)
def test_values(text, value):
    found = parse_yaml(f"a: {text}", source="f")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value", ["1e5", "010", "1:30", "2024-01-01", "yes", "~", "a: b", "", 1e-5, 1e22, True, None, []]
)
def test_dump_is_read_back(value):
    assert parse_yaml(dump_yaml({"a": value}), source="f") == {"a": value}


def test_key_written_twice_names_both_lines():
    with pytest.raises(ConfigError, match=r"f\.yaml, line 3: key 'lr' is written twice \(first on line 2\)"):
        parse_yaml("optimizer:\n  lr: 1\n  lr: 2\n", source="f.yaml")


def test_broken_yaml_names_line_and_column():
    with pytest.raises(ConfigError, match=r"f\.yaml, line 2, column 1: not valid YAML"):
        parse_yaml("a: [1,\n", source="f.yaml")


def test_nothing_but_plain_data_is_built():
    with pytest.raises(ConfigError, match="not valid YAML"):
        parse_yaml("a: !!python/object/apply:os.getcwd []", source="f")
