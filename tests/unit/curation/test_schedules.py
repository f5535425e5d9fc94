import pytest

from headrace.curation.schedules import warmup_factor, warmup_updates


def test_warmup_is_linear_and_never_zero():
    assert [warmup_factor(u, 4) for u in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmup_factor(0, 0) == 1.0


@pytest.mark.parametrize(("warmup", "total", "updates"), [(10, 40, 10), (0.1, 40, 4), (0.0, 40, 0), (0.05, 10, 0)])
def test_warmup_in_updates_or_as_a_fraction(warmup, total, updates):
    assert warmup_updates(warmup, total) == updates
