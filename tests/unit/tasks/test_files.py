import json

import pytest

from headrace.errors import DataError
from headrace.tasks.files import Columns, read_table


@pytest.fixture
def write(tmp_path):
    def write_file(data, name="rows.jsonl"):
        file = tmp_path / name
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        return file

    return write_file


def row(prompt, answer, **more):
    return json.dumps({"prompt": prompt, "answer": answer, **more}, ensure_ascii=False)


def test_byte_order_mark_crlf_line_separator_and_no_final_newline(write):
    text = "\ufeff" + row("a\u2028b", "1") + "\r\n" + row("c", "2")
    table = read_table(write(text))
    assert [r["prompt"] for r in table.rows] == ["a\u2028b", "c"]
    assert [r["answer"] for r in table.rows] == ["1", "2"]


def test_blank_lines_are_no_rows_but_count_as_lines(write):
    assert read_table(write(row("a", "1") + "\n\n  \n" + row("b", "2") + "\n")).numbers == [1, 4]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), ("2/3", "2/3"), (0.5, "0.5"), (54.0, "54"), (True, "true"), (["a"], '["a"]'), (-0, "0")],
)
def test_answers_become_text(write, value, text):
    assert read_table(write(row("6*9?", value))).rows[0]["answer"] == text


def test_columns_that_only_some_rows_have_are_kept(write):
    table = read_table(write(row("a", 1) + "\n" + row("b", "2/3", source="x")))
    assert [r.get("source") for r in table.rows] == [None, "x"]


BAD = [row("a", "1"), "{broken", "[1,2]", row("b", "2"), row("c", None), row(" ", "3"), '{"prompt": "d"}']


def test_the_first_malformed_row_is_named(write):
    with pytest.raises(
        DataError, match=r"rows\.jsonl, row 2: not valid JSON: .*found '\{broken'.*task\.bad_rows"
    ) as error:
        read_table(write("\n".join(BAD)))
    assert error.value.exit_code == 2


def test_malformed_rows_can_be_dropped_and_are_counted(write):
    table = read_table(write("\n".join(BAD)), bad_rows="drop")
    assert [r["prompt"] for r in table.rows] == ["a", "b"]
    assert list(table.dropped) == [2, 3, 5, 6, 7]
    assert table.dropped[5] == "column 'answer' (task.answer_column) is empty."
    assert table.dropped[7] == "there is no 'answer' (task.answer_column) in it; it has: prompt."


def test_a_row_that_is_not_utf8_is_named(write):
    with pytest.raises(DataError, match=r"row 2: not UTF-8 text \(byte 12"):
        read_table(write(row("a", "1").encode() + b'\n{"prompt": "\xff", "answer": "1"}'))


def test_a_missing_column_lists_those_there_are(write):
    with pytest.raises(
        DataError, match=r"no column 'prompt' \(task\.prompt_column\); the columns are: question, solution"
    ):
        read_table(write('{"question": "1+1", "solution": "2"}'))


def test_a_misspelt_column_gets_a_hint(write):
    with pytest.raises(DataError, match="Did you mean 'answer'"):
        read_table(write(row("a", "1")), Columns(answer="answr"))


def test_no_answer_is_needed_where_a_function_judges(write):
    assert len(read_table(write('{"prompt": "a"}'), Columns(answer_needed=False)).rows) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_data_set(write, text):
    with pytest.raises(DataError, match="the data set is empty"):
        read_table(write(text))


def test_all_rows_dropped(write):
    with pytest.raises(DataError, match="all 1 rows were dropped; the first, row 1: found a JSON list"):
        read_table(write("[1,2]"), bad_rows="drop")


def test_a_json_array_is_told_from_jsonl(write):
    with pytest.raises(DataError, match="write one object a line"):
        read_table(write(f"[\n{row('a', '1')}\n]", "rows.json"))


def test_a_missing_file_lists_its_neighbours(write):
    file = write(row("a", "1"))
    with pytest.raises(DataError, match=r"row\.jsonl does not exist; beside it are: rows\.jsonl"):
        read_table(file.with_name("row.jsonl"))


def test_another_format_is_refused(write):
    with pytest.raises(DataError, match=r"allowed are files that end in \.jsonl"):
        read_table(write("a,b", "rows.csv"))


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"question": ["1+1", "2+2"], "answer": [2, 4]}), file)
    table = read_table(file, Columns(prompt="question"))
    assert table.rows == [{"question": "1+1", "answer": "2"}, {"question": "2+2", "answer": "4"}]
    with pytest.raises(DataError, match="the columns are: question, answer"):
        read_table(file)


def test_a_file_that_is_no_parquet(write):
    with pytest.raises(DataError, match="is not a Parquet file"):
        read_table(write("hello", "rows.parquet"))
