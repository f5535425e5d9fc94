"""Keys of the algorithm that have no effect in a recipe, and parts that fight each other."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.config.algorithm import GAE, AlgorithmSection, GroupRelative, Smoothed
from headrace.config.sections import Recipe

WITH_VALUES = (GAE, Smoothed)
"""Advantages that read a value model."""

Finding = tuple[str, tuple[str, ...], str]
"""A key without effect, the keys that take it away, and why."""


def updates_per_step(recipe: Recipe) -> int:
    """Optimiser updates of one step."""
    return recipe.batch.num_epochs * recipe.batch.num_minibatches


def anchor_in_force(recipe: Recipe) -> str:
    """What ratios divide by: with 'auto' and one update a step a proximal ratio would be 1 throughout, so the
    behaviour anchor is taken whatever the loss wants."""
    algorithm = recipe.algorithm
    if algorithm.anchor != "auto":
        return algorithm.anchor
    return algorithm.loss.wants_anchor if updates_per_step(recipe) > 1 else "behaviour"


def inert_algorithm(recipe: Recipe) -> Iterator[Finding]:
    """Keys of ``algorithm`` that cannot act, written or not."""
    algorithm = recipe.algorithm
    yield from _inert_advantage(algorithm)
    yield from _inert_tolerance(algorithm)
    yield from _inert_parts(algorithm)
    yield from _inert_range(algorithm)
    yield from _inert_ratio(recipe)
    if algorithm.value is not None and updates_per_step(recipe) == 1:
        why = "with one update a step no value has moved yet"
        yield ("algorithm.value.clip", ("batch.num_minibatches", "batch.num_epochs"), why)


def _inert_tolerance(algorithm: AlgorithmSection) -> Iterator[Finding]:
    if algorithm.zero_variance != "keep":
        return
    key, part = "algorithm.zero_variance_tolerance", algorithm.advantage
    if not isinstance(part, GroupRelative):
        why = f"algorithm.zero_variance is 'keep' and advantage '{part.name}' compares no group"
        yield (key, ("algorithm.zero_variance", "algorithm.advantage.name"), why)
    elif part.mean in ("none", "batch") and part.scale == "none":
        why = "algorithm.zero_variance is 'keep', and neither mean nor scale of the advantage looks at a spread"
        yield (key, ("algorithm.zero_variance", "algorithm.advantage.mean", "algorithm.advantage.scale"), why)


def _inert_advantage(algorithm: AlgorithmSection) -> Iterator[Finding]:
    part = algorithm.advantage
    if isinstance(part, GroupRelative):
        if part.scale != "group":
            why = f"algorithm.advantage.scale is '{part.scale}'; only 'group' has a choice of ddof"
            yield ("algorithm.advantage.ddof", ("algorithm.advantage.scale",), why)
        if part.scale == "none":
            why = "algorithm.advantage.scale is 'none': nothing is divided"
            yield ("algorithm.advantage.eps", ("algorithm.advantage.scale",), why)
    if isinstance(part, GAE) and part.length_alpha is not None:
        why = "algorithm.advantage.length_alpha sets lambda by the length of each rollout"
        yield ("algorithm.advantage.lambda_policy", ("algorithm.advantage.length_alpha",), why)
    if isinstance(part, GAE) and algorithm.truncated == "mask":
        why = "algorithm.truncated is 'mask': a rollout that was cut does not train"
        yield ("algorithm.advantage.bootstrap_truncated", ("algorithm.truncated",), why)


def _inert_parts(algorithm: AlgorithmSection) -> Iterator[Finding]:
    if algorithm.entropy is not None and algorithm.entropy.target is None:
        for key in ("delta", "coef_max"):
            why = "algorithm.entropy.target is null: the weight is fixed"
            yield (f"algorithm.entropy.{key}", ("algorithm.entropy.target",), why)
    if algorithm.kl is not None and algorithm.kl.into == "reward":
        why = "algorithm.kl.into is 'reward': nothing of it is in the loss"
        yield ("algorithm.kl.importance", ("algorithm.kl.into",), why)
    if algorithm.correction is not None and algorithm.correction.mode == "truncate":
        why = "algorithm.correction.mode is 'truncate', which only has an upper end"
        yield ("algorithm.correction.low", ("algorithm.correction.mode",), why)
    if algorithm.clip_schedule is not None and algorithm.clip_schedule.shape == "linear":
        why = "algorithm.clip_schedule.shape is 'linear', over the whole run"
        yield ("algorithm.clip_schedule.final_frac", ("algorithm.clip_schedule.shape",), why)


def _inert_range(algorithm: AlgorithmSection) -> Iterator[Finding]:
    if algorithm.adaptive_clip is not None and getattr(algorithm.loss, "ratio_min", None) == 0:
        why = "algorithm.loss.ratio_min is 0: there is no lower side to move"
        yield ("algorithm.adaptive_clip.side", ("algorithm.loss.ratio_min", "algorithm.loss.name"), why)


def _inert_ratio(recipe: Recipe) -> Iterator[Finding]:
    algorithm, anchor = recipe.algorithm, anchor_in_force(recipe)
    loss, correction, kl = algorithm.loss, algorithm.correction, algorithm.kl
    causes = ("algorithm.anchor", "algorithm.loss.name", "batch.num_minibatches", "batch.num_epochs")
    if anchor == "behaviour" and correction is not None:
        why = "ratios divide by the behaviour policy here, so nothing is left to correct"
        for key in ("mode", "level", "low", "high"):
            yield (f"algorithm.correction.{key}", causes, why)
    if anchor == "proximal" and updates_per_step(recipe) == 1:
        why = "with the proximal anchor and one update a step every ratio is 1"
        for key in _keys_of_ratios(algorithm):
            yield (f"algorithm.{key}", causes, why)
    if not loss.has_ratio and correction is None and (kl is None or kl.into == "reward" or not kl.importance):
        why = f"loss '{loss.name}' has no ratio, and nothing else divides by an anchor"
        yield ("algorithm.anchor", ("algorithm.loss.name", "algorithm.correction", "algorithm.kl"), why)
    by_token = anchor == "proximal" and correction is not None and correction.level == "token"
    if isinstance(algorithm.advantage, GroupRelative) and not by_token:
        why = "all tokens of a rollout have one advantage and one weight: both forms have one gradient"
        more = ("algorithm.advantage.name", "algorithm.correction", "algorithm.correction.level")
        yield ("algorithm.loss.token_form", (*causes, *more), why)


def _keys_of_ratios(algorithm: AlgorithmSection) -> Iterator[str]:
    yield from (f"loss.{key}" for key in algorithm.loss.ratio_keys)
    for name in ("adaptive_clip", "clip_schedule"):
        part = getattr(algorithm, name)
        if part is not None:
            yield from (f"{name}.{key}" for key in type(part).model_fields)


def algorithm_fights(recipe: Recipe) -> list[str]:
    """One sentence for each pair of parts that contradict each other."""
    return [
        *_value_model(recipe),
        *_ranges(recipe),
        *_lengths(recipe),
        *_group_of_one(recipe),
        *_retirement(recipe),
        *_entropy(recipe),
    ]


def _value_model(recipe: Recipe) -> Iterator[str]:
    algorithm = recipe.algorithm
    name = algorithm.advantage.name
    if isinstance(algorithm.advantage, WITH_VALUES) and algorithm.value is None:
        yield (
            f"algorithm.advantage.name '{name}' needs algorithm.value: it reads a value model; allowed: a section "
            "algorithm.value (an empty one, {}, takes the defaults), or the advantage 'group_relative'."
        )
    if algorithm.value is not None and algorithm.value.pretrain_steps >= recipe.run.steps:
        yield (
            f"algorithm.value.pretrain_steps {algorithm.value.pretrain_steps} fights run.steps {recipe.run.steps}: the "
            f"policy would never be trained; allowed: pretrain_steps < {recipe.run.steps}."
        )
    if algorithm.value is not None and not isinstance(algorithm.advantage, WITH_VALUES):
        yield (
            f"algorithm.value fights algorithm.advantage.name '{name}': nothing reads the value model; allowed: "
            "advantage 'gae' or 'smoothed', or algorithm.value: null."
        )


def _ranges(recipe: Recipe) -> Iterator[str]:
    loss, algorithm = recipe.algorithm.loss, recipe.algorithm
    for part in ("adaptive_clip", "clip_schedule"):
        if getattr(algorithm, part) is not None and not loss.range_keys:
            yield (
                f"algorithm.{part} fights algorithm.loss.name '{loss.name}', which has no fixed clip range to move; "
                f"allowed: a loss with clip_low and clip_high or ratio_max, or algorithm.{part}: null."
            )
    low, cap = getattr(loss, "ratio_min", None), getattr(loss, "ratio_max", None)
    if low is not None and cap is not None and low > cap:
        yield (
            f"algorithm.loss.ratio_min {low:g} fights algorithm.loss.ratio_max {cap:g}: no ratio lies between them; "
            f"allowed: ratio_min <= {cap:g}."
        )
    dual, high = getattr(loss, "dual_clip", None), getattr(loss, "clip_high", 0.0)
    if dual is not None and dual <= 1 + high:
        yield (
            f"algorithm.loss.dual_clip {dual:g} fights algorithm.loss.clip_high {high:g}: it would cut inside the clip "
            f"range; allowed: dual_clip > {1 + high:g}."
        )


def _lengths(recipe: Recipe) -> Iterator[str]:
    limit, algorithm = recipe.sampling.max_completion_tokens, recipe.algorithm
    if algorithm.overlong is not None and algorithm.overlong.buffer_tokens > limit:
        yield (
            f"algorithm.overlong.buffer_tokens {algorithm.overlong.buffer_tokens} fights "
            f"sampling.max_completion_tokens {limit}; allowed: buffer_tokens <= {limit}."
        )
    stop = algorithm.interruption
    if stop is not None and stop.high + stop.answer_tokens >= limit:
        yield (
            f"algorithm.interruption.high {stop.high} and answer_tokens {stop.answer_tokens} fight "
            f"sampling.max_completion_tokens {limit}, the limit of the whole completion, injected text included; "
            f"allowed: high + answer_tokens + the injected tokens <= {limit}."
        )


def _group_of_one(recipe: Recipe) -> Iterator[str]:
    if recipe.batch.group_size > 1:
        return
    part = recipe.algorithm.advantage
    mean, scale = getattr(part, "mean", "none"), getattr(part, "scale", "none")
    if mean in ("group", "leave_one_out"):
        yield (
            f"batch.group_size 1 fights algorithm.advantage.mean '{mean}': with one completion a prompt there is no "
            "group to compare with and every advantage is 0; allowed: group_size >= 2, or mean 'batch' or 'none'."
        )
    if scale == "group":
        yield (
            "batch.group_size 1 fights algorithm.advantage.scale 'group': one reward has no standard deviation; "
            "allowed: group_size >= 2, or another scale."
        )
    if getattr(part, "baseline", "none") == "group":
        yield (
            "batch.group_size 1 fights algorithm.advantage.baseline 'group': a reward minus itself is 0; allowed: "
            "group_size >= 2, or baseline 'none'."
        )
    if recipe.algorithm.zero_variance != "keep":
        yield (
            f"batch.group_size 1 fights algorithm.zero_variance '{recipe.algorithm.zero_variance}': a group of one "
            "never varies, so every group would be taken out; allowed: group_size >= 2, or zero_variance 'keep'."
        )


def _retirement(recipe: Recipe) -> Iterator[str]:
    part = recipe.algorithm.pass_rate
    if part is None:
        return
    if part.threshold == 0:
        yield "algorithm.pass_rate.threshold 0 would retire every prompt; allowed: above 0."
    if part.window is not None and part.min_count is not None and part.window < part.min_count:
        yield (
            f"algorithm.pass_rate.window {part.window} fights algorithm.pass_rate.min_count {part.min_count}: so many "
            f"rollouts are never in it; allowed: window >= {part.min_count}, or a smaller min_count."
        )


def _entropy(recipe: Recipe) -> Iterator[str]:
    part = recipe.algorithm.entropy
    if part is not None and part.target is not None and part.coef > part.coef_max:
        yield (
            f"algorithm.entropy.coef {part.coef:g} fights algorithm.entropy.coef_max {part.coef_max:g}: the weight "
            f"would begin above its limit; allowed: coef <= {part.coef_max:g}."
        )
