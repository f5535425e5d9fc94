"""The algorithm of a recipe in sentences: one for each part that is there."""

from __future__ import annotations

from headrace.config.algorithm import (
    GAE,
    AlgorithmSection,
    GroupRelative,
    InterruptionSection,
    ReinforcePP,
    Smoothed,
)
from headrace.config.algorithm_conflicts import anchor_in_force, updates_per_step
from headrace.config.sections import Recipe


def algorithm_sentences(recipe: Recipe) -> str:
    """Advantages, objective, averaging, and every optional part that is switched on."""
    algorithm = recipe.algorithm
    return " ".join([_advantage(algorithm), _objective(recipe), *_parts(recipe)])


def _advantage(algorithm: AlgorithmSection) -> str:
    part = algorithm.advantage
    if isinstance(part, GroupRelative):
        how = f"reward minus the mean of '{part.mean}' over the standard deviation of '{part.scale}'"
        how = how if part.scale != "none" else f"reward minus the mean of '{part.mean}', not scaled"
    elif isinstance(part, GAE):
        lam = (
            f"1 - 1 / ({part.length_alpha:g} x length)" if part.length_alpha is not None else f"{part.lambda_policy:g}"
        )
        how = (
            f"GAE with gamma {part.gamma:g}, lambda {lam} for the policy and {part.lambda_value:g} for the value model"
        )
    elif isinstance(part, Smoothed):
        how = f"TD errors averaged {part.direction} with weight {part.smoothing:g} (article form), gamma {part.gamma:g}"
    else:
        assert isinstance(part, ReinforcePP)
        how = f"return to go with gamma {part.gamma:g}, normalised over all tokens of the step"
    return (
        f"Advantages: {how}. Groups with equal rewards (within {algorithm.zero_variance_tolerance:g}): "
        f"'{algorithm.zero_variance}'."
    )


def _objective(recipe: Recipe) -> str:
    algorithm = recipe.algorithm
    keys = algorithm.loss.model_dump(exclude={"name"}, exclude_none=True)
    shown = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in keys.items()
    )
    anchor = {
        "behaviour": "the policy that sampled the token",
        "proximal": "the policy at the start of the step",
    }[anchor_in_force(recipe)]
    return (
        f"Objective: '{algorithm.loss.name}'{f' ({shown})' if shown else ''}, averaged as '{algorithm.loss_weight}'; "
        f"ratios divide by {anchor}."
    )


def _interruption(part: InterruptionSection) -> str:
    closed = (
        f"that has not written {part.closing!r} by" if part.closing is not None else "that is still being written at"
    )
    return (
        f"Thinking is interrupted: a completion {closed} a point drawn between {part.low} and {part.high} tokens gets "
        f"{part.text!r} put in, which is not trained on, and {part.answer_tokens} tokens for its answer."
    )


def _parts(recipe: Recipe) -> list[str]:
    a, limit = recipe.algorithm, recipe.sampling.max_completion_tokens
    found = []
    if a.correction is not None and anchor_in_force(recipe) == "proximal":
        ends = (
            f"[{a.correction.low:g}, {a.correction.high:g}]"
            if a.correction.mode == "mask"
            else f"{a.correction.high:g}"
        )
        found.append(f"Importance correction: {a.correction.mode} by {a.correction.level} at {ends}.")
    if a.off_policy_mask is not None:
        found.append(f"Wrong sequences that the policy has left by more than {a.off_policy_mask.delta:g} are masked.")
    if a.kl is not None:
        where = a.kl.reference or "the weights the run starts from"
        found.append(f"KL penalty {a.kl.coef:g} ({a.kl.estimator}) to {where}, in the {a.kl.into}.")
    if a.entropy is not None:
        aim = f", steered towards {a.entropy.target:g} nats" if a.entropy.target is not None else ""
        found.append(f"Entropy bonus {a.entropy.coef:g}{aim}.")
    if a.adaptive_clip is not None:
        found.append(
            f"The clip range follows the entropy around {a.adaptive_clip.target_entropy:g} nats (article form)."
        )
    if a.clip_schedule is not None:
        found.append(f"The clip offsets move to {a.clip_schedule.factor:g} times their first value.")
    if a.overlong is not None:
        found.append(f"The last {a.overlong.buffer_tokens} of {limit} tokens cost up to {a.overlong.factor:g} reward.")
    if a.truncated == "mask":
        found.append("Completions cut by the token limit are masked out of the loss.")
    if a.pass_rate is not None:
        found.append(f"Prompts solved at a rate of {a.pass_rate.threshold:g} or more retire for good.")
    if a.interruption is not None:
        found.append(_interruption(a.interruption))
    if a.value is not None:
        every = {1: "every step", 2: "every second step", 3: "every third step"}[a.value.every]
        found.append(f"A value model is trained at {every} (learning rate {a.value.lr:g}).")
    if updates_per_step(recipe) == 1 and recipe.async_.max_lag == 0 and a.loss.range_keys:
        keys = " and ".join(f"algorithm.loss.{key}" for key in a.loss.range_keys)
        found.append(
            f"Note: with async.max_lag 0 and one update a step every ratio is 1 up to rounding: {keys} hardly act."
        )
    return found
