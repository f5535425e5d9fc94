"""From the groups of a cut to the batch the trainer gets: shaping, advantages, then rows and loss weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.advantages.group_relative import with_advantages
from headrace.config.algorithm import AlgorithmSection, GroupRelative
from headrace.config.sections import BatchSection
from headrace.curation.overlong import shaped
from headrace.packing.batch import pack
from headrace.pipeline.batcher import Cut
from headrace.records import Group, PackedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBuilder:
    """Pure: the same cut gives the same batch.

    The order matters: the zero-variance rule has seen the verdicts' own rewards when a group finished; shaping comes
    after it and before group statistics; truncated completions count in these and are masked afterwards; statistics of
    the batch are those of the groups that were cut.
    """

    algorithm: AlgorithmSection
    batch: BatchSection
    max_completion_tokens: int

    def build(self, cut: Cut, *, lineage: int, max_lag: int) -> tuple[list[Group], PackedBatch]:
        """Groups as they were judged, with their advantages, and their packed batch, whose rewards are the shaped ones.

        Advantages that the trainer makes itself are not known here: the groups' are not theirs.
        """
        groups = self._advantages([self._shaped(group) for group in cut.groups])
        packed = pack(
            groups,
            step=cut.step,
            lineage=lineage,
            max_lag=max_lag,
            loss_weight=self.algorithm.loss_weight,
            num_minibatches=self.batch.num_minibatches,
            num_epochs=self.batch.num_epochs,
            micro_batch_tokens=self.batch.micro_batch_tokens,
            horizon=self.max_completion_tokens,
            mask_truncated=self.algorithm.truncated == "mask",
        )
        return [_as_judged(*pair) for pair in zip(groups, cut.groups, strict=True)], packed

    def _shaped(self, group: Group) -> Group:
        part = self.algorithm.overlong
        if part is None:
            return group
        return shaped(group, max_tokens=self.max_completion_tokens, **part.model_dump())

    def _advantages(self, groups: Sequence[Group]) -> list[Group]:
        part, tolerance = self.algorithm.advantage, self.algorithm.zero_variance_tolerance
        if not isinstance(part, GroupRelative):  # the trainer makes these: they read its models
            return with_advantages(groups, mean="none", scale="none", tolerance=tolerance)
        return with_advantages(
            groups, mean=part.mean, scale=part.scale, group_ddof=part.ddof, eps=part.eps, tolerance=tolerance
        )


def _as_judged(group: Group, judged: Group) -> Group:
    """The group with the verdicts it had before shaping."""
    if group.rollouts and all(g.verdict is j.verdict for g, j in zip(group.rollouts, judged.rollouts, strict=True)):
        return group
    pairs = zip(group.rollouts, judged.rollouts, strict=True)
    return replace(group, rollouts=tuple(replace(g, verdict=j.verdict) for g, j in pairs))
