"""The parts of an algorithm as recipe sections. A part that is null (the default of most) does not exist in the run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.config.base import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    OpenFraction,
    PositiveFloat,
    PositiveInt,
    Section,
)
from headrace.config.losses import LossSection, PPOClip


class GroupRelative(Section):
    """Critic-free: reward minus a baseline, over a scale (GRPO, Dr. GRPO, RLOO, ScaleRL)."""

    name: Literal["group_relative"]
    mean: Literal["none", "group", "leave_one_out", "batch"] = Field(
        default="group",
        description="level whose mean reward is the baseline; leave_one_out = the group's other members",
    )
    scale: Literal["none", "group", "batch", "raw_batch"] = Field(
        default="group",
        description="level whose standard deviation scales; batch = of the centred rewards, raw_batch = of the rewards",
    )
    ddof: Annotated[int, Field(ge=0, le=1)] = Field(
        default=1, description="scale 'group': 1 = sample, 0 = population standard deviation"
    )
    eps: PositiveFloat = Field(default=1e-6, description="added to the standard deviation")


class GAE(Section):
    """Generalised advantage estimation over a value model (arXiv 1506.02438; decoupled arXiv 2504.05118)."""

    name: Literal["gae"]
    gamma: Fraction = Field(default=1.0, description="discount")
    lambda_policy: Fraction = Field(default=1.0, description="lambda of the policy's advantages")
    lambda_value: Fraction = Field(default=1.0, description="lambda of the value targets")
    length_alpha: PositiveFloat | None = Field(
        default=None, description="lambda_policy becomes 1 - 1 / (length_alpha x length) (VAPO: .05); null = fixed"
    )
    segment_tokens: NonNegativeInt = Field(
        default=0, description="long rollouts are processed in segments of this many tokens (same result); 0 = whole"
    )
    whiten: bool = Field(default=True, description="advantages of an update are shifted and scaled to mean 0, sd 1")
    bootstrap_truncated: bool = Field(
        default=False, description="a rollout cut by the token limit ends in its own value instead of 0"
    )


class Smoothed(Section):
    """Article form: an exponential average of TD errors in place of GAE."""

    name: Literal["smoothed"]
    gamma: Fraction = Field(default=0.99, description="discount")
    smoothing: Fraction = Field(default=0.95, description="weight of the average so far")
    lambda_value: Fraction = Field(default=0.95, description="lambda of the value targets")
    direction: Literal["forward", "backward"] = Field(default="forward", description="direction of the average")


class ReinforcePP(Section):
    """REINFORCE++ (arXiv 2501.03262): return to go, normalised over all tokens of the step."""

    name: Literal["reinforce_pp"]
    gamma: Fraction = Field(default=1.0, description="discount")
    baseline: Literal["none", "group"] = Field(default="none", description="subtract the group's mean reward first")


AdvantageSection = Annotated[GroupRelative | GAE | Smoothed | ReinforcePP, Field(discriminator="name")]


class CorrectionSection(Section):
    """Importance weight of the proximal against the behaviour policy; acts with the proximal anchor."""

    mode: Literal["truncate", "mask"] = Field(
        default="truncate", description="weights beyond high are cut to it, or the tokens outside [low, high] masked"
    )
    level: Literal["token", "sequence", "geometric"] = Field(
        default="token", description="of each token, of the whole sequence, or its geometric mean"
    )
    low: NonNegativeFloat = Field(default=0.0, description="mode 'mask': smallest weight that still trains")
    high: PositiveFloat = Field(default=2.0, description="largest weight")

    @model_validator(mode="after")
    def _ordered(self) -> CorrectionSection:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} must lie below high {self.high}")
        return self


class OffPolicyMask(Section):
    """Sequences with a negative advantage that the policy has left are masked (DeepSeek-V3.2)."""

    delta: PositiveFloat = Field(default=1e-4, description="largest mean log ratio, old to current, that still trains")


class AdaptiveClip(Section):
    """Article form: the clip range follows the entropy, clip x (1 + alpha (target_entropy - entropy))."""

    target_entropy: PositiveFloat = Field(description="entropy, in nats, at which the range is the loss's own")
    alpha: PositiveFloat = Field(default=0.2, description="change of the range for each nat")
    sign: Literal["formula", "prose"] = Field(
        default="formula", description="wider below the target (the article's formula) or narrower (its text)"
    )
    side: Literal["high", "both"] = Field(default="high", description="the upper range alone, or both")


class ClipSchedule(Section):
    """Article form: the clip range moves during training, towards clip_low x factor and clip_high x factor."""

    factor: PositiveFloat = Field(default=0.5, description="the offsets end at this multiple of what they began with")
    shape: Literal["linear", "final"] = Field(default="linear", description="evenly, or at once for the last part")
    final_frac: OpenFraction = Field(default=0.2, description="shape 'final': the last part, as share of all steps")


class KLSection(Section):
    """Penalty for leaving a frozen reference model."""

    coef: PositiveFloat = Field(default=0.001, description="weight of the penalty")
    estimator: Literal["k1", "k2", "k3"] = Field(
        default="k3", description="estimator of the divergence, token by token"
    )
    into: Literal["loss", "reward"] = Field(default="loss", description="added to the loss, or taken off the reward")
    importance: bool = Field(default=True, description="into 'loss': weighted with the ratio, which carries gradient")
    reference: str | None = Field(
        default=None, min_length=1, description="model folder or id; null = the weights the run started from"
    )


class EntropySection(Section):
    """Entropy bonus, fixed or steered towards a target."""

    coef: NonNegativeFloat = Field(default=0.001, description="weight of the bonus (its first value with a target)")
    target: PositiveFloat | None = Field(
        default=None, description="entropy, in nats, that steers the weight; null = the weight is fixed"
    )
    delta: PositiveFloat = Field(default=0.005, description="change of the weight at each update, with a target")
    coef_max: PositiveFloat = Field(default=0.1, description="largest weight, with a target")


class OverlongSection(Section):
    """Soft overlong punishment (DAPO, arXiv 2503.14476 eq. 13): a growing penalty before the token limit."""

    buffer_tokens: PositiveInt = Field(default=16, description="length of the stretch before the limit that costs")
    factor: PositiveFloat = Field(default=1.0, description="penalty at the limit")
    only_right: bool = Field(default=False, description="only right answers are punished (ScaleRL's variant)")


class PassRateSection(Section):
    """No-Positive-Resampling: prompts that are solved nearly always retire for good (ScaleRL, arXiv 2510.13786)."""

    threshold: Fraction = Field(default=0.9, description="pass rate from which a prompt retires")
    window: PositiveInt | None = Field(
        default=None, description="newest rollouts that count (article: 100); null = all of them"
    )
    min_count: PositiveInt | None = Field(default=None, description="rollouts before it may retire; null = 4 groups")
    patience: PositiveInt = Field(default=1, description="group completions in a row that must be above (article: 2)")
    effective: Literal["now", "next_epoch"] = Field(
        default="next_epoch", description="when a retired prompt is left out (article: now)"
    )
    reserve_frac: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="share of the prompts held back to take retired ones' places"
    )
    pass_threshold: float | None = Field(default=None, description="reward that counts as a pass; null = the verdict")


class InterruptionSection(Section):
    """Over-long thinking is interrupted: a text is injected, masked out of the loss, and the answer follows."""

    low: PositiveInt = Field(description="fewest thinking tokens before the interruption")
    high: PositiveInt = Field(description="most thinking tokens; the point is drawn between the two")
    text: str = Field(min_length=1, description="what is injected")
    closing: str | None = Field(
        default="</think>",
        min_length=1,
        description="marks, by its token ids, that thinking was over before; null = whatever reaches its point is cut",
    )
    answer_tokens: PositiveInt = Field(description="budget of the answer after it")

    @model_validator(mode="after")
    def _ordered(self) -> InterruptionSection:
        if self.low > self.high:
            raise ValueError(f"low {self.low} lies above high {self.high}")
        return self


class ValueSection(Section):
    """The value model: a copy of the policy with a scalar head, trained on returns."""

    lr: PositiveFloat = Field(default=1e-5, description="its learning rate")
    warmup: NonNegativeInt = Field(default=0, description="updates over which its learning rate rises")
    every: Annotated[int, Field(ge=1, le=3)] = Field(default=1, description="it is updated at every N-th step")
    pretrain_steps: NonNegativeInt = Field(default=0, description="first steps that train it alone, not the policy")
    clip: PositiveFloat | None = Field(default=0.5, description="its change in one step is clipped to this; null = not")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="its gradient norm is clipped to this")


class AlgorithmSection(Section):
    """An algorithm is a row of parts."""

    advantage: AdvantageSection = Field(
        default_factory=lambda: GroupRelative(name="group_relative"), description="from rewards to advantages"
    )
    loss: LossSection = Field(
        default_factory=lambda: PPOClip(name="ppo_clip"), description="the objective and its keys"
    )
    loss_weight: Literal["token_mean", "sample_mean", "prompt_mean", "prompt_sample_mean", "constant"] = Field(
        default="sample_mean", description="how token losses are averaged"
    )
    anchor: Literal["auto", "behaviour", "proximal"] = Field(
        default="auto", description="what ratios divide by: auto = what the loss wants"
    )
    zero_variance: Literal["keep", "shrink", "refill"] = Field(
        default="keep", description="groups with equal rewards: train, blank, or replace"
    )
    zero_variance_tolerance: NonNegativeFloat = Field(default=1e-6, description="rewards this close count as equal")
    truncated: Literal["train", "mask"] = Field(
        default="train", description="completions cut by the token limit: train, or mask out of the loss"
    )
    correction: CorrectionSection | None = Field(
        default_factory=CorrectionSection, description="importance correction beside the ratio"
    )
    off_policy_mask: OffPolicyMask | None = Field(default=None, description="masking of sequences left behind")
    adaptive_clip: AdaptiveClip | None = Field(default=None, description="clip range that follows the entropy")
    clip_schedule: ClipSchedule | None = Field(default=None, description="clip range that moves during training")
    kl: KLSection | None = Field(default=None, description="penalty for leaving a reference model")
    entropy: EntropySection | None = Field(default=None, description="entropy bonus")
    overlong: OverlongSection | None = Field(default=None, description="penalty for completions near the limit")
    pass_rate: PassRateSection | None = Field(default=None, description="retiring prompts that are solved")
    interruption: InterruptionSection | None = Field(default=None, description="interruption of long thinking")
    value: ValueSection | None = Field(default=None, description="the value model")
