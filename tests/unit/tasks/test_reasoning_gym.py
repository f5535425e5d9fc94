import importlib.util

import pytest

from headrace.errors import ConfigError, DataError
from headrace.tasks.reasoning_gym import make_rows

INSTALLED = importlib.util.find_spec("reasoning_gym") is not None
needs_it = pytest.mark.skipif(not INSTALLED, reason="reasoning-gym is an extra")


@pytest.mark.skipif(INSTALLED, reason="reasoning-gym is installed")
def test_the_missing_extra_is_named():
    with pytest.raises(DataError, match=r"needs the package reasoning-gym .*pip install 'headrace\[reasoning-gym\]'"):
        make_rows("chain_sum", {}, num_held_out=4, seed=0)


@needs_it
def test_rows_are_a_function_of_the_seed_and_held_out_ones_are_not_trained():
    params = {"min_digits": 1, "max_digits": 2, "size": 50}
    train, held_out = make_rows("chain_sum", params, num_held_out=20, seed=1)
    assert make_rows("chain_sum", params, num_held_out=20, seed=1) == (train, held_out)
    assert make_rows("chain_sum", params, num_held_out=20, seed=2)[1] == held_out
    assert len(held_out) == 20
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in held_out}


@needs_it
def test_an_unknown_generator_gets_a_hint():
    with pytest.raises(ConfigError, match="Did you mean 'chain_sum'"):
        make_rows("chainsum", {}, num_held_out=4, seed=0)


@needs_it
def test_an_unknown_parameter_lists_those_there_are():
    with pytest.raises(ConfigError, match=r"task\.params .*its parameters are: .*min_digits"):
        make_rows("chain_sum", {"digits": 3}, num_held_out=4, seed=0)
