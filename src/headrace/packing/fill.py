"""From planned rows to the arrays of a micro-batch, by index arithmetic on flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from headrace.packing.flat import Flat, Int, ragged
from headrace.records import NO_VERSION, MicroBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What rows say of each rollout beside its tokens; arrays [B]."""

    segment: Int  # number of the rollout
    block: Int  # number of its group's prompt block
    prompt: Int  # tokens in that block, 0 where nothing is shared
    weight: npt.NDArray[np.float64]  # of its trainable tokens in the loss


def blank(num_rows: int, width: int) -> MicroBatch:
    """Rows of padding only."""
    shape = (num_rows, width)
    return MicroBatch(
        token_ids=np.zeros(shape, np.int32),
        position_ids=np.zeros(shape, np.int32),
        segment=np.full(shape, -1, np.int32),
        prefix=np.full(shape, -1, np.int32),
        previous=np.full(shape, -1, np.int32),
        trainable=np.zeros(shape, np.bool_),
        behaviour_logprob=np.zeros(shape, np.float32),
        policy_version=np.full(shape, NO_VERSION, np.int32),
        advantage=np.zeros(shape, np.float32),
        loss_weight=np.zeros(shape, np.float64),
    )


def fill_rows(flat: Flat, labels: Labels, members: Sequence[Sequence[int]], width: int) -> MicroBatch:
    """Row r holds the rollouts ``members[r]`` of ``flat``, those of a group side by side and behind one block."""
    micro = blank(len(members), width)
    rollout = np.fromiter(chain.from_iterable(members), np.int64)
    row = np.repeat(np.arange(len(members)), [len(m) for m in members])
    shared, own = labels.prompt[rollout], (flat.length - labels.prompt)[rollout]
    opens = np.ones(len(rollout), np.bool_)  # the first of its group in its row brings the block
    opens[1:] = (np.diff(row) != 0) | (np.diff(flat.group[rollout]) != 0)
    brought = np.where(opens, shared, 0)
    begin = (brought + own).cumsum() - brought - own
    begin -= begin[np.searchsorted(row, row)]  # now a column
    opener = np.maximum.accumulate(np.where(opens, np.arange(len(rollout)), 0))
    _put_blocks(micro, flat, labels, row[opens], begin[opens], rollout[opens])
    last_shared = np.where(shared > 0, begin[opener] + shared - 1, -1)
    _put_own(micro, flat, labels, row, begin + brought, rollout, last_shared)
    return micro


def _put_blocks(micro: MicroBatch, flat: Flat, labels: Labels, row: Int, column: Int, rollout: Int) -> None:
    """Prompt blocks, each taken from the rollout that brings it."""
    run, place = ragged(labels.prompt[rollout])
    at = (row[run], column[run] + place)
    micro.token_ids[at] = flat.token_ids[flat.start[rollout[run]] + place]
    micro.position_ids[at] = place
    micro.segment[at] = micro.prefix[at] = labels.block[rollout[run]]
    micro.previous[at] = np.where(place > 0, at[1] - 1, -1)


def _put_own(
    micro: MicroBatch, flat: Flat, labels: Labels, row: Int, column: Int, rollout: Int, last_shared: Int
) -> None:
    """What follows the prompt, of every rollout; ``last_shared``: column before its first token, -1 if none."""
    prompt = labels.prompt[rollout]
    run, place = ragged(flat.length[rollout] - prompt)
    at = (row[run], column[run] + place)
    who, position = rollout[run], prompt[run] + place
    source = flat.start[who] + position
    micro.token_ids[at] = flat.token_ids[source]
    micro.position_ids[at] = position
    micro.segment[at] = labels.segment[who]
    micro.prefix[at] = np.where(prompt > 0, labels.block[rollout], labels.segment[rollout])[run]
    micro.previous[at] = np.where(place > 0, at[1] - 1, last_shared[run])
    micro.trainable[at] = flat.trainable[source]
    micro.behaviour_logprob[at] = flat.behaviour_logprob[source]
    micro.policy_version[at] = flat.policy_version[source]
    micro.advantage[at] = flat.advantage[source]
    micro.loss_weight[at] = flat.trainable[source] * labels.weight[who]
