import numpy as np
import pytest
from scipy import stats

from headrace.engines.noise import uniform


def pairs(seeds: list[int], positions: list[int]) -> np.ndarray:
    return uniform(np.array(seeds, np.int64), np.array(positions, np.int64))


@pytest.mark.parametrize(
    ("seed", "position", "value"),
    [
        # SplitMix64 outputs worked out with integers of unbounded size; the state of seed 0 is its published first
        # output, 0xE220A8397B1DCDAF.
        (0, 0, ((0xA706DD2F4D197E6F >> 14) + 0.5) / 2**50),
        (0, 1, 0.7012121095215256),
        (12345, 678, 0.8468128010864127),
        (2**63 - 1, 0, 0.41323623306268287),
    ],
)
def test_worked_values(seed: int, position: int, value: float) -> None:
    assert pairs([seed], [position])[0] == value


def test_open_interval_and_independence_of_the_batch() -> None:
    seeds, positions = np.arange(1000, dtype=np.int64), np.arange(1000, dtype=np.int64)[::-1]
    together = uniform(seeds, positions)
    assert ((together > 0) & (together < 1)).all()
    assert [uniform(seeds[i : i + 1], positions[i : i + 1])[0] for i in range(1000)] == together.tolist()


@pytest.mark.parametrize("along", ["position", "seed"])
def test_uniform_along_positions_and_along_seeds(along: str) -> None:
    n = 200_000
    running, fixed = np.arange(n, dtype=np.int64), np.full(n, 5, np.int64)
    values = uniform(fixed, running) if along == "position" else uniform(running, fixed)
    assert stats.kstest(values, "uniform").pvalue > 0.001
    cells = np.bincount((values * 100).astype(int), minlength=100)
    assert stats.chisquare(cells).pvalue > 0.001


def test_neighbours_are_uncorrelated() -> None:
    seed, position = (a.ravel().astype(np.int64) for a in np.meshgrid(np.arange(400), np.arange(400), indexing="ij"))
    values = uniform(seed, position).reshape(400, 400)
    # 0.0025 is one standard deviation of a correlation over 160,000 pairs; a diagonal shift would be seed = position.
    for one, other in (
        (values[:, 1:], values[:, :-1]),
        (values[1:], values[:-1]),
        (values[1:, 1:], values[:-1, :-1]),
        (values[1:, :-1], values[:-1, 1:]),
    ):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.01
