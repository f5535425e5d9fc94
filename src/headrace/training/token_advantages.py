"""Advantages and value targets token by token, from what the trainer alone knows: values and log-probabilities.

Rules that need neither (``advantages/group_relative.py``) are worked out before packing and do not come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.advantages.gae import gae, length_adaptive_lambda, segment_gae
from headrace.advantages.reinforce_pp import returns_to_go
from headrace.advantages.smoothed import smoothed
from headrace.advantages.token_rewards import token_rewards
from headrace.advantages.whiten import WHITEN_DDOF, WHITEN_EPS
from headrace.errors import RecordError
from headrace.records import FloatArray, IntArray, MicroBatch
from headrace.training.ranks import Ranks

Array = npt.NDArray[np.float64]
Estimate = Callable[[Array, Array, float], tuple[Array, Array]]
"""(token rewards [L], values [L], value after the end) of one rollout -> (advantages [L], value targets [L])."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRule:
    """How token rewards become advantages, and what the trainer must bring for it."""

    estimate: Estimate
    needs_values: bool = True
    bootstrap_truncated: bool = False  # a rollout cut by the token limit ends in its own value instead of 0
    centre_groups: bool = False  # rewards are taken against their group's mean first
    whiten_over: str = ""  # "update" | "step" | "" for not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTargets:
    """Of one micro-batch's trainable tokens, in row-major order."""

    advantage: Array  # [T]
    returns: Array  # [T], never whitened


def gae_rule(
    *,
    gamma: float,
    lambda_policy: float,
    lambda_value: float,
    length_alpha: float | None,
    segment_tokens: int,
    whiten: bool,
    bootstrap_truncated: bool,
) -> TokenRule:
    """Generalised advantage estimation, arXiv 1506.02438 eq. 16; a lambda of its own for the value targets (VC-PPO,
    arXiv 2503.01491) and a lambda of the policy that may grow with the length (VAPO, arXiv 2504.05118)."""

    def estimate(reward: Array, value: Array, end: float) -> tuple[Array, Array]:
        lam = lambda_policy if length_alpha is None else length_adaptive_lambda(len(reward), length_alpha)
        run = partial(segment_gae, reward, value, gamma=gamma, bootstrap=end, segment_tokens=segment_tokens or None)
        advantage, returns = run(lam=lam)
        return advantage, returns if lam == lambda_value else run(lam=lambda_value)[1]

    return TokenRule(estimate=estimate, bootstrap_truncated=bootstrap_truncated, whiten_over="update" if whiten else "")


def smoothed_rule(*, gamma: float, smoothing: float, lambda_value: float, direction: str) -> TokenRule:
    """An exponential average of TD errors as advantage; value targets stay those of GAE."""

    def estimate(reward: Array, value: Array, end: float) -> tuple[Array, Array]:
        advantage = smoothed(reward, value, gamma=gamma, lam=smoothing, direction=direction)
        return advantage, gae(reward, value, gamma=gamma, lam=lambda_value, bootstrap=end)[1]

    return TokenRule(estimate=estimate)


def reinforce_pp_rule(*, gamma: float, baseline: str) -> TokenRule:
    """REINFORCE++, arXiv 2501.03262: the return to go, normalised over all tokens of the step; no value model."""

    def estimate(reward: Array, value: Array, end: float) -> tuple[Array, Array]:
        returns = returns_to_go(reward, [len(reward)], gamma=gamma)
        return returns, returns

    return TokenRule(estimate=estimate, needs_values=False, centre_groups=baseline == "group", whiten_over="step")


TOKEN_RULES: Mapping[str, Callable[..., TokenRule]] = {
    "gae": gae_rule,
    "smoothed": smoothed_rule,
    "reinforce_pp": reinforce_pp_rule,
}


def build_token_rule(section: Mapping[str, Any]) -> TokenRule | None:
    """The rule of an advantage section (``name`` and parameters); None when advantages come with the batch."""
    parameters = dict(section)
    rule = TOKEN_RULES.get(parameters.pop("name"))
    return None if rule is None else rule(**parameters)


def token_targets(
    rule: TokenRule,
    updates: Sequence[Sequence[MicroBatch]],
    *,
    rewards: FloatArray,
    group_index: IntArray,
    values: Mapping[int, Array] | None = None,
    end_values: Mapping[int, float] | None = None,
    kl: Mapping[int, Array] | None = None,
    kl_coef: float = 0.0,
    ranks: Ranks | None = None,
) -> dict[int, TokenTargets]:
    """Targets of every micro-batch of a step, by its identity (``id``).

    ``rewards``, ``group_index`` [B] by segment. By identity of the micro-batch, [T] each: ``values`` before each
    trainable token, ``kl`` = log pi_old - log pi_reference of it (k1). ``end_values``, by segment: the value of the
    state after a truncated rollout; others end in 0. Advantages are whitened after the returns are taken, over all
    tokens with weight of all ranks: the split over micro-batches, rows and ranks does not matter.

    Raises ``RecordError`` when a rule with values gets none, and for a trainable token whose rollout has no reward.
    """
    scores = _group_centred(rewards, group_index) if rule.centre_groups else rewards.astype(np.float64)
    targets: dict[int, TokenTargets] = {}
    for micro in _distinct(micro for update in updates for micro in update):
        if rule.needs_values and values is None:
            raise RecordError("these advantages need a value model")
        value = np.zeros(int(micro.trainable.sum())) if values is None else values[id(micro)]
        penalty = None if kl is None else kl[id(micro)]
        targets[id(micro)] = _micro_targets(rule, micro, scores, value, end_values or {}, penalty, kl_coef)
    for scope in _scopes(rule.whiten_over, updates):
        _whiten(scope, targets, ranks or Ranks())
    return targets


def _micro_targets(
    rule: TokenRule,
    micro: MicroBatch,
    scores: Array,
    value: Array,
    end_values: Mapping[int, float],
    kl: Array | None,
    kl_coef: float,
) -> TokenTargets:
    """One rollout after the other; its tokens keep their places among the micro-batch's trainable tokens."""
    advantage, returns = np.zeros(len(value)), np.zeros(len(value))
    for segment, places in _rollouts(micro):
        score = float(scores[segment])
        if not np.isfinite(score):
            raise RecordError(f"rollout {segment} of the step trains without a finite reward")
        reward = token_rewards(score, len(places), None if kl is None else kl[places], kl_coef)
        advantage[places], returns[places] = rule.estimate(reward, value[places], end_values.get(segment, 0.0))
    return TokenTargets(advantage=advantage, returns=returns)


def _rollouts(micro: MicroBatch) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Segment of every rollout that trains here, and the places of its tokens in row-major order."""
    segment = micro.segment[micro.trainable]
    if not segment.size:
        return
    order = np.argsort(segment, kind="stable")
    found, starts = np.unique(segment[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)


def _group_centred(rewards: FloatArray, group_index: IntArray) -> Array:
    """Rewards [B] minus the mean of their group's judged members."""
    scores = rewards.astype(np.float64)
    judged = np.isfinite(scores)
    size = int(group_index.max(initial=-1)) + 1
    sums = np.bincount(group_index[judged], weights=scores[judged], minlength=size)
    counts = np.bincount(group_index[judged], minlength=size)
    centred: Array = scores - (sums / np.maximum(counts, 1))[group_index]
    return centred


def _scopes(over: str, updates: Sequence[Sequence[MicroBatch]]) -> list[list[MicroBatch]]:
    """The micro-batches that are whitened together; epochs repeat their updates, which count once."""
    if over == "step":
        return [_distinct(micro for update in updates for micro in update)]
    if over == "update":
        return list({tuple(map(id, update)): list(update) for update in updates if update}.values())
    return []


def _whiten(micros: Sequence[MicroBatch], targets: dict[int, TokenTargets], ranks: Ranks) -> None:
    """``whiten`` over the tokens with weight of all ranks; equal advantages, and a single one, become 0."""
    own = [targets[id(m)].advantage[m.loss_weight[m.trainable] != 0] for m in micros]
    seen = np.concatenate([np.zeros(0), *own])
    count, total = ranks.sum_values(float(len(seen)), float(seen.sum()))
    mean = total / max(count, 1.0)
    (squares,) = ranks.sum_values(float(np.square(seen - mean).sum()))
    # Equal advantages differ from their mean by rounding.
    vary = squares > 1e-24 * count * mean**2
    scale = 1 / np.sqrt(squares / max(count - WHITEN_DDOF, 1.0) + WHITEN_EPS) if vary else 0.0
    for micro in micros:
        one = targets[id(micro)]
        targets[id(micro)] = replace(one, advantage=(one.advantage - mean) * scale)


def _distinct(micros: Iterator[MicroBatch]) -> list[MicroBatch]:
    return list({id(micro): micro for micro in micros}.values())
