import pytest

from headrace.errors import HeadraceError
from headrace.tasks.shuffle import epoch_key, mix, shuffled

EPOCH_0 = [2, 1, 6, 3, 7, 4, 8, 9, 0, 5]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_every_row_comes_once(size):
    assert sorted(shuffled(i, size, key=5) for i in range(size)) == list(range(size))


def test_values_do_not_change_between_versions():
    # splitmix64's published first output for seed 0
    assert mix(0) == 0xE220A8397B1DCDAF
    assert [shuffled(i, 10, epoch_key(0, 0)) for i in range(10)] == EPOCH_0
    assert [shuffled(i, 10, epoch_key(0, 1)) for i in range(10)] != EPOCH_0
    assert [shuffled(i, 10, epoch_key(1, 0)) for i in range(10)] != EPOCH_0


def test_rows_land_everywhere():
    first = [shuffled(0, 10, epoch_key(seed, 0)) for seed in range(1000)]
    assert min(first.count(row) for row in range(10)) > 60  # 100 each on average, 3 sigma is 28


def test_a_place_outside_is_an_error():
    with pytest.raises(HeadraceError, match="place 3 is outside an order of 3 rows"):
        shuffled(3, 3, 0)
