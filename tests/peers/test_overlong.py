"""DAPO's soft overlong punishment against TRL's reward function and verl's reward manager.

Tried with trl 1.16.0, verl 0.9.1, torch 2.13.0.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from trl.rewards import get_soft_overlong_punishment
from verl import DataProto
from verl.workers.reward_manager.dapo import DAPORewardManager

from headrace.curation.overlong import overlong_penalty

MAX, BUFFER = 100, 20
LENGTHS = (1, 50, 79, 80, 81, 90, 99, 100)
BEYOND = 110


def verl(lengths: tuple[int, ...], factor: float) -> list[float]:
    """The penalty alone: verl adds it to a score, here 0, on the last token."""
    b, w = len(lengths), max(lengths)
    mask = torch.arange(w)[None] < torch.tensor(lengths)[:, None]
    data = DataProto.from_dict(
        tensors={
            "prompts": torch.ones(b, 1, dtype=torch.int64),
            "responses": torch.ones(b, w, dtype=torch.int64),
            "attention_mask": torch.cat([torch.ones(b, 1, dtype=torch.int64), mask.long()], 1),
        },
        non_tensors={
            "reward_model": np.array([{"ground_truth": ""}] * b, dtype=object),
            "data_source": np.array(["x"] * b, dtype=object),
        },
    )
    manager = DAPORewardManager(
        tokenizer=SimpleNamespace(decode=lambda ids, **keys: "", eos_token="</s>"),
        num_examine=0,
        compute_score=lambda **keys: 0.0,
        max_resp_len=MAX,
        overlong_buffer_cfg=SimpleNamespace(enable=True, len=BUFFER, penalty_factor=factor, log=False),
    )
    return manager(data).sum(1).tolist()


def ours(length: int, factor: float = 1.0) -> float:
    return overlong_penalty(length, max_tokens=MAX, buffer_tokens=BUFFER, factor=factor)


def test_trl() -> None:
    punish = get_soft_overlong_punishment(MAX, BUFFER)
    theirs = punish([[0] * n for n in (*LENGTHS, BEYOND)])
    assert [ours(n) for n in (*LENGTHS, BEYOND)] == pytest.approx(theirs, rel=1e-12)
    assert sorted({0.0, -1.0} & set(theirs)) == [-1.0, 0.0]


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_verl(factor: float) -> None:
    # verl's reward tensor is float32.
    assert [ours(n, factor) for n in LENGTHS] == pytest.approx(verl(LENGTHS, factor), rel=1e-6)


def test_verl_has_no_floor() -> None:
    """Beyond the limit its penalty goes on growing; generation stops there, so it only shows on a longer limit."""
    assert verl((BEYOND,), 1.0) == pytest.approx([-1.5])
    assert ours(BEYOND) == -1.0
