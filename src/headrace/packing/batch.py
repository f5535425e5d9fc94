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

from headrace.errors import RecordError
from headrace.packing.eligible import masked_reason
from headrace.packing.fill import Labels, blank, fill_rows
from headrace.packing.flat import Flat, flatten, shared_prompts
from headrace.packing.loss_weights import token_weights
from headrace.packing.rows import Pieces, plan_rows
from headrace.records import Group, MicroBatch, PackedBatch, Rollout


@dataclass(frozen=True, slots=True)
class _Item:
    """A rollout that trains, with its number in the step and the number of its group."""

    rollout: Rollout
    segment: int
    group: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """What holds for all updates of a step."""

    loss_weight: str
    horizon: int | None
    budget: int  # tokens of a micro-batch
    num_rollouts: int


def pack(
    groups: Sequence[Group],
    *,
    step: int,
    lineage: int,
    max_lag: int,
    loss_weight: str,
    num_minibatches: int,
    num_epochs: int,
    micro_batch_tokens: int,
    horizon: int | None = None,
    mask_truncated: bool = False,
) -> PackedBatch:
    """Pack the groups of one step, advantages filled in, into ``num_epochs * num_minibatches`` updates.

    Groups with signal are dealt out to the updates in order, as evenly as possible; a group is never split over
    updates, a rollout never over rows; rollouts of a group that lie in one row share the tokens they begin with. Each
    epoch holds the same micro-batches. An update that no group is left for is empty. Segments number all rollouts of
    ``groups`` in order.

    ``horizon`` is the token limit that loss weight 'constant' divides by. ``mask_truncated`` leaves completions that
    the limit cut out of every row and denominator; their rewards have counted in their group's advantages.

    Raises ``RecordError`` for a rollout without advantage, with a trainable first token (it has no context), or longer
    than ``micro_batch_tokens``.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    chunks = _deal(_items(groups, mask_truncated), num_minibatches)
    layout = _Layout(loss_weight, horizon, micro_batch_tokens, len(rollouts))
    updates = tuple(_micro_batches(chunk, layout) for chunk in chunks)
    trained = [micro for update in updates for micro in update]
    return PackedBatch(
        step=step,
        lineage=lineage,
        max_lag=max_lag,
        updates=updates * num_epochs,
        rewards=np.asarray([np.nan if r is None else r for g in groups for r in g.rewards], dtype=np.float32),
        group_index=np.repeat(np.arange(len(groups)), [len(g.rollouts) for g in groups]).astype(np.int32),
        temperature=np.asarray([r.temperature for r in rollouts], dtype=np.float64),
        seeds=np.asarray([r.seed for r in rollouts], dtype=np.int64),
        truncated=np.asarray([r.finish_reason == "length" for r in rollouts], dtype=np.bool_),
        num_tokens=sum(int(np.count_nonzero(micro.segment >= 0)) for micro in trained),
        num_trainable=sum(int(np.count_nonzero(micro.trainable)) for micro in trained),
    )


def padding_like(micro: MicroBatch) -> MicroBatch:
    """A micro-batch of the same shape that contributes nothing, for ranks that ran out of rows."""
    return blank(*micro.token_ids.shape)


def _items(groups: Sequence[Group], mask_truncated: bool) -> list[list[_Item]]:
    """Trainable rollouts by group, groups without any left out."""
    found: list[list[_Item]] = []
    segment = 0
    for number, group in enumerate(groups):
        items = []
        for rollout in group.rollouts:
            cut = mask_truncated and rollout.finish_reason == "length"
            if group.signal and not cut and not masked_reason(rollout):
                items.append(_Item(_checked(rollout), segment, number))
            segment += 1
        if items:
            found.append(items)
    return found


def _checked(rollout: Rollout) -> Rollout:
    who = f"rollout {rollout.rollout_id}"
    if rollout.advantage is None:
        raise RecordError(f"{who} has no advantage")
    if rollout.trainable[0]:
        raise RecordError(f"{who}: its first token is trainable, but nothing stands before it")
    return rollout


def _deal(groups: list[list[_Item]], num_minibatches: int) -> list[list[_Item]]:
    """Contiguous runs of groups, sizes differing by one at most."""
    bounds = [len(groups) * i // num_minibatches for i in range(num_minibatches + 1)]
    return [[item for group in groups[a:b] for item in group] for a, b in pairwise(bounds)]


def _micro_batches(items: Sequence[_Item], layout: _Layout) -> tuple[MicroBatch, ...]:
    """The rows of one update in micro-batches that keep to the budget of tokens."""
    if not items:
        return ()
    number = np.asarray([item.group for item in items], dtype=np.int64)
    flat = flatten([item.rollout for item in items], number)
    _check_lengths(items, flat, layout.budget)
    prompt = shared_prompts(flat)
    labels = Labels(
        segment=np.asarray([item.segment for item in items]),
        block=layout.num_rollouts + number,
        prompt=prompt[flat.group],
        weight=token_weights(layout.loss_weight, flat.num_trainable, flat.group, horizon=layout.horizon),
    )
    pieces = Pieces((flat.length - labels.prompt).tolist(), flat.group.tolist(), prompt.tolist())
    return tuple(fill_rows(flat, labels, rows.members, rows.width) for rows in plan_rows(pieces, layout.budget))


def _check_lengths(items: Sequence[_Item], flat: Flat, budget: int) -> None:
    worst = int(flat.length.argmax())
    if flat.length[worst] > budget:
        raise RecordError(
            f"rollout {items[worst].rollout.rollout_id} has {flat.length[worst]} tokens; batch.micro_batch_tokens is "
            f"{budget}: raise it"
        )
