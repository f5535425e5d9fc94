"""From the groups of a step to the arrays the trainer works on. numpy only.

What counts: a group with ``signal`` keeps its place and, in its update, its judged rollouts make the denominators. A
group without signal (rule 'shrink') keeps its place in ``rewards`` and ``group_index`` but goes into no row and no
denominator, as in ScaleRL, whose effective batch shrinks. An unjudged rollout is masked in the same way. Groups that
equal rewards left at advantage 0 under rule 'keep' are ordinary groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headrace.errors import RecordError
from headrace.packing.eligible import masked_reason
from headrace.packing.loss_weights import token_weights
from headrace.packing.rows import plan_rows
from headrace.records import NO_VERSION, Group, MicroBatch, PackedBatch, Rollout


@dataclass(frozen=True, slots=True)
class _Item:
    """A rollout that trains, with its number in the step and the number of its group."""

    rollout: Rollout
    segment: int
    group: int


def pack(
    groups: Sequence[Group],
    *,
    step: int,
    lineage: int,
    max_lag: int,
    temperature: float,
    loss_weight: str,
    num_minibatches: int,
    num_epochs: int,
    micro_batch_tokens: int,
) -> PackedBatch:
    """Pack the groups of one step, advantages filled in, into ``num_epochs * num_minibatches`` updates.

    Groups with signal are dealt out to the updates in order, as evenly as possible; a group is never split over
    updates, a rollout never over rows. Each epoch holds the same micro-batches. An update that no group is left for
    is empty. Segments number all rollouts of ``groups`` in order.

    Raises ``RecordError`` for a rollout without advantage, of another temperature, with a trainable first token (it
    has no context), or longer than ``micro_batch_tokens``.
    """
    chunks = _deal(_items(groups, temperature), num_minibatches)
    updates = tuple(_micro_batches(chunk, loss_weight, micro_batch_tokens) for chunk in chunks)
    trained = [item.rollout for chunk in chunks for item in chunk]
    return PackedBatch(
        step=step,
        lineage=lineage,
        max_lag=max_lag,
        temperature=temperature,
        updates=updates * num_epochs,
        rewards=np.asarray([np.nan if r is None else r for g in groups for r in g.rewards], dtype=np.float32),
        group_index=np.repeat(np.arange(len(groups)), [len(g.rollouts) for g in groups]).astype(np.int32),
        num_tokens=sum(r.length for r in trained),
        num_trainable=sum(r.num_trainable for r in trained),
    )


def padding_like(micro: MicroBatch) -> MicroBatch:
    """A micro-batch of the same shape that contributes nothing, for ranks that ran out of rows."""
    return _blank(*micro.token_ids.shape)


def _items(groups: Sequence[Group], temperature: float) -> list[list[_Item]]:
    """Trainable rollouts by group, groups without any left out."""
    found: list[list[_Item]] = []
    segment = 0
    for number, group in enumerate(groups):
        items = []
        for rollout in group.rollouts:
            if group.signal and not masked_reason(rollout):
                items.append(_Item(_checked(rollout, temperature), segment, number))
            segment += 1
        if items:
            found.append(items)
    return found


def _checked(rollout: Rollout, temperature: float) -> Rollout:
    who = f"rollout {rollout.rollout_id}"
    if rollout.advantage is None:
        raise RecordError(f"{who} has no advantage")
    if rollout.temperature != temperature:
        raise RecordError(f"{who} was sampled at temperature {rollout.temperature}, the step trains at {temperature}")
    if rollout.trainable[0]:
        raise RecordError(f"{who}: its first token is trainable, but nothing stands before it")
    return rollout


def _deal(groups: list[list[_Item]], num_minibatches: int) -> list[list[_Item]]:
    """Contiguous runs of groups, sizes differing by one at most."""
    bounds = [len(groups) * i // num_minibatches for i in range(num_minibatches + 1)]
    return [[item for group in groups[a:b] for item in group] for a, b in pairwise(bounds)]


def _micro_batches(items: Sequence[_Item], loss_weight: str, budget: int) -> tuple[MicroBatch, ...]:
    """The rows of one update in micro-batches of at most ``budget`` tokens each."""
    if not items:
        return ()
    lengths = [item.rollout.length for item in items]
    if max(lengths) > budget:
        worst = items[int(np.argmax(lengths))].rollout
        raise RecordError(
            f"rollout {worst.rollout_id} has {worst.length} tokens; batch.micro_batch_tokens is {budget}: raise it"
        )
    weights = token_weights(loss_weight, [i.rollout.num_trainable for i in items], [i.group for i in items])
    return tuple(_fill(items, weights, rows.members, rows.width) for rows in plan_rows(lengths, budget))


def _blank(num_rows: int, width: int) -> MicroBatch:
    shape = (num_rows, width)
    return MicroBatch(
        token_ids=np.zeros(shape, np.int32),
        position_ids=np.zeros(shape, np.int32),
        segment=np.full(shape, -1, np.int32),
        trainable=np.zeros(shape, np.bool_),
        behaviour_logprob=np.zeros(shape, np.float32),
        policy_version=np.full(shape, NO_VERSION, np.int32),
        advantage=np.zeros(shape, np.float32),
        loss_weight=np.zeros(shape, np.float64),
    )


def _fill(
    items: Sequence[_Item], weights: npt.NDArray[np.float64], members: Sequence[Sequence[int]], width: int
) -> MicroBatch:
    micro = _blank(len(members), width)
    for row, indices in enumerate(members):
        start = 0
        for index in indices:
            rollout = items[index].rollout
            place = (row, slice(start, start + rollout.length))
            micro.token_ids[place] = rollout.token_ids
            micro.position_ids[place] = np.arange(rollout.length)
            micro.segment[place] = items[index].segment
            micro.trainable[place] = rollout.trainable
            micro.behaviour_logprob[place] = rollout.behaviour_logprob
            micro.policy_version[place] = rollout.policy_version
            micro.advantage[place] = rollout.advantage
            micro.loss_weight[place] = rollout.trainable * weights[index]
            start += rollout.length
    return micro
