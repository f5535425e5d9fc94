"""Two real trainer processes end a step with the weights one process would have."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.records import MicroBatch, PackedBatch
from headrace.training.ranks import Ranks


def micro(num_rows: int) -> MicroBatch:
    shape = (num_rows, 2)
    rows = np.repeat(np.arange(num_rows, dtype=np.int32)[:, None], 2, axis=1)
    return MicroBatch(
        token_ids=rows,
        position_ids=np.zeros(shape, np.int32),
        segment=rows,
        prefix=rows,
        previous=np.full(shape, -1, np.int32),
        trainable=np.ones(shape, np.bool_),
        behaviour_logprob=np.zeros(shape, np.float32),
        policy_version=np.zeros(shape, np.int32),
        advantage=np.zeros(shape, np.float32),
        loss_weight=np.ones(shape, np.float64),
    )


def batch(*micros: MicroBatch) -> PackedBatch:
    return PackedBatch(
        step=0,
        lineage=0,
        max_lag=0,
        updates=(micros, micros),
        rewards=np.zeros(0, np.float32),
        group_index=np.zeros(0, np.int32),
        temperature=np.zeros(0),
        seeds=np.zeros(0, np.int64),
        truncated=np.zeros(0, np.bool_),
        num_tokens=0,
        num_trainable=0,
    )


def test_ranks_share_every_row_once_and_keep_the_number_of_micro_batches() -> None:
    whole = batch(micro(5), micro(1))
    shares = [Ranks(rank, 2).share(whole) for rank in (0, 1)]
    assert [m.token_ids[:, 0].tolist() for m in shares[0].updates[0]] == [[0, 2, 4], [0]]
    assert [m.token_ids[:, 0].tolist() for m in shares[1].updates[0]] == [[1, 3], []]
    # Epochs go on sharing their micro-batches: the prepare pass scores each once.
    assert shares[0].updates[0][0] is shares[0].updates[1][0]


def test_one_rank_shares_nothing() -> None:
    whole = batch(micro(3))
    assert Ranks().share(whole) is whole
    assert Ranks().sum_values(2.0, 3.0) == [2.0, 3.0]


def _work(rank: int, meeting: str, results: Any) -> None:
    import torch

    torch.set_num_threads(1)
    ranks = Ranks.join(rank, 2, meeting)
    tensors = [torch.full((2, 2), float(rank + 1)), torch.full((3,), 10.0 * (rank + 1))]
    ranks.sum_tensors(tensors)
    sums = ranks.sum_values(float(rank), 1.0)
    gathered = ranks.gather({"rank": rank})
    results.put((rank, [t.tolist() for t in tensors], sums, gathered))
    ranks.leave()


@pytest.mark.slow
def test_sums_over_two_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_work, args=(rank, str(tmp_path / "meeting"), results)) for rank in (0, 1)]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    for rank, tensors, sums, gathered in found:
        assert tensors == [[[3.0, 3.0], [3.0, 3.0]], [30.0, 30.0, 30.0]]
        assert sums == [1.0, 2.0]
        assert gathered == ([{"rank": 0}, {"rank": 1}] if rank == 0 else [{"rank": 1}])
