import pytest

from headrace.curation.schedules import (
    clip_factor,
    first_final_step,
    scaled_cap,
    scheduled,
    warmup_factor,
    warmup_updates,
)


def test_warmup_is_linear_and_never_zero():
    assert [warmup_factor(u, 4) for u in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmup_factor(0, 0) == 1.0


@pytest.mark.parametrize(("warmup", "total", "updates"), [(10, 40, 10), (0.1, 40, 4), (0.0, 40, 0), (0.05, 10, 0)])
def test_warmup_in_updates_or_as_a_fraction(warmup, total, updates):
    assert warmup_updates(warmup, total) == updates


def test_linear_reaches_both_ends():
    temperature = scheduled(1.0, 0.6, 5)
    assert [temperature(s) for s in range(5)] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert (temperature(4), temperature(99), temperature(-1)) == (0.6, 0.6, 1.0)


def test_final_part_changes_at_once():
    temperature = scheduled(1.0, 0.6, 10, shape="final", final_frac=0.3)
    assert [temperature(s) for s in range(10)] == [1.0] * 7 + [0.6] * 3


def test_constant_stays():
    assert {scheduled(0.8, 0.1, 4, shape="constant")(s) for s in range(6)} == {0.8}


@pytest.mark.parametrize(
    ("total", "frac", "first"),
    [(100, 0.2, 80), (7, 0.2, 6), (10, 0.0, 10), (10, 1.0, 0), (3, 0.1, 3), (1000, 0.3, 700)],
)
def test_where_the_final_part_begins(total, frac, first):
    assert first_final_step(total, frac) == first


def test_clip_ranges_move_by_a_factor():
    factor = clip_factor(0.5, 3)
    assert [factor(s) * 0.2 for s in range(3)] == pytest.approx([0.2, 0.15, 0.1])
    assert scaled_cap(5.0, factor(2)) == 3.0
    assert scaled_cap(0.8, factor(2)) == pytest.approx(0.9)
    assert scaled_cap(1.28, 1.0) == pytest.approx(1.28)


def test_one_step_is_the_first():
    assert scheduled(1.0, 0.5, 1)(0) == 1.0


def test_refusals():
    with pytest.raises(ValueError, match="shape 'cosine'"):
        scheduled(1.0, 0.5, 10, shape="cosine")
    with pytest.raises(ValueError, match="no step"):
        scheduled(1.0, 0.5, 0)
    with pytest.raises(ValueError, match="final_frac"):
        scheduled(1.0, 0.5, 10, shape="final", final_frac=1.2)
