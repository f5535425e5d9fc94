"""The objectives as recipe sections: ``algorithm.loss.name`` picks one, the other keys are its arguments."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.config.base import Fraction, NonNegativeFloat, OpenFraction, PositiveFloat, Section


class Loss(Section):
    """What every objective has: the anchor it wants, the keys that make up its clip range, and those that mean nothing
    while all its ratios are 1.

    ``wants_anchor`` 'proximal' takes effect with several updates a step (see ``anchor_in_force``). ``has_ratio``: the
    anchor matters to it.
    """

    wants_anchor: ClassVar[Literal["behaviour", "proximal"]] = "proximal"
    range_keys: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high")
    ratio_keys: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high")
    has_ratio: ClassVar[bool] = True


class _Offsets(Loss):
    """A clip range given as offsets from 1."""

    clip_low: PositiveFloat = Field(default=0.2, description="ratio is clipped below at 1 - clip_low")
    clip_high: PositiveFloat = Field(default=0.2, description="ratio is clipped above at 1 + clip_high")

    @model_validator(mode="after")
    def _sane(self) -> _Offsets:
        if self.clip_low >= 1:
            raise ValueError(f"clip_low {self.clip_low} is an offset below 1; found >= 1")
        return self


DualClip = Annotated[float, Field(gt=1)]
_DUAL = "bounds the loss of a negative advantage at this ratio (arXiv 1912.09729: 3); null = off"


class PPOClip(_Offsets):
    """PPO's clipped surrogate (arXiv 1707.06347 eq. 7; asymmetric range arXiv 2503.14476)."""

    ratio_keys: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high", "dual_clip")

    name: Literal["ppo_clip"]
    dual_clip: DualClip | None = Field(default=None, description=_DUAL)


class CISPO(Loss):
    """CISPO (arXiv 2506.13585 eq. 4-5; one-sided cap as in ScaleRL, arXiv 2510.13786)."""

    wants_anchor: ClassVar[Literal["behaviour", "proximal"]] = "behaviour"
    range_keys: ClassVar[tuple[str, ...]] = ("ratio_max", "ratio_min")
    ratio_keys: ClassVar[tuple[str, ...]] = ("ratio_max", "ratio_min")

    name: Literal["cispo"]
    ratio_max: PositiveFloat = Field(
        default=5.0, description="absolute cap on the importance ratio (ScaleRL: 4, 5 or 8)"
    )
    ratio_min: Fraction = Field(default=0.0, description="absolute lower cap on the ratio; 0 = none, as in the paper")


class GSPO(_Offsets):
    """GSPO (arXiv 2507.18071): one ratio a sequence, its geometric mean."""

    name: Literal["gspo"]
    clip_low: PositiveFloat = Field(default=3e-4, description="the sequence's ratio is clipped below at 1 - clip_low")
    clip_high: PositiveFloat = Field(default=4e-4, description="the sequence's ratio is clipped above at 1 + clip_high")
    token_form: bool = Field(default=False, description="GSPO-token: the same value, gradients token by token")


class BAPO(Loss):
    """BAPO (arXiv 2510.18927 eq. 8, algorithm 1): absolute bounds searched anew for every update."""

    wants_anchor: ClassVar[Literal["behaviour", "proximal"]] = "behaviour"
    range_keys: ClassVar[tuple[str, ...]] = ()
    ratio_keys: ClassVar[tuple[str, ...]] = (
        *("target_share", "low_start", "low_end", "low_step", "high_start", "high_end", "high_step"),
        *("order", "metric", "contribution", "end", "dual_clip"),
    )

    name: Literal["bapo"]
    target_share: PositiveFloat = Field(
        default=0.4, description="what positive tokens must carry: a share below 1, or a ratio with metric 'ratio'"
    )
    low_start: NonNegativeFloat = Field(default=0.6, description="lower bound on the ratio, first value")
    low_end: NonNegativeFloat = Field(default=0.9, description="lower bound on the ratio, last value")
    low_step: PositiveFloat = Field(default=0.02, description="step of the lower bound")
    high_start: PositiveFloat = Field(default=1.2, description="upper bound on the ratio, first value")
    high_end: PositiveFloat = Field(default=3.0, description="upper bound on the ratio, last value")
    high_step: PositiveFloat = Field(default=0.05, description="step of the upper bound")
    order: Literal["high_first", "low_first"] = Field(
        default="high_first", description="which bound moves first (paper: high; official code: low)"
    )
    metric: Literal["share", "ratio"] = Field(
        default="share", description="target_share as share pos / (pos + neg), or as the code's pos / neg"
    )
    contribution: Literal["surrogate", "active"] = Field(
        default="surrogate",
        description="what a token contributes: its clipped surrogate, or only where it has gradient",
    )
    end: Literal["stop", "clamp"] = Field(
        default="stop", description="a step past the end is not taken (paper) or shortened to it (official code)"
    )
    dual_clip: DualClip | None = Field(default=None, description=_DUAL)

    @model_validator(mode="after")
    def _ordered(self) -> BAPO:
        if self.metric == "share" and self.target_share >= 1:
            raise ValueError(
                f"target_share {self.target_share} is a share and lies below 1; metric 'ratio' has no limit"
            )
        if not self.low_start <= self.low_end <= 1 <= self.high_start <= self.high_end:
            raise ValueError(
                f"bounds must rise around 1: low_start {self.low_start} <= low_end {self.low_end} <= 1 <= high_start "
                f"{self.high_start} <= high_end {self.high_end}"
            )
        return self


class BAPOBalanced(Loss):
    """Article form of BAPO: two channels with fixed bounds, weighted towards a share of positive tokens."""

    wants_anchor: ClassVar[Literal["behaviour", "proximal"]] = "behaviour"
    range_keys: ClassVar[tuple[str, ...]] = ("ratio_max", "ratio_min")
    ratio_keys: ClassVar[tuple[str, ...]] = ("ratio_max", "ratio_min")

    name: Literal["bapo_balanced"]
    ratio_min: Fraction = Field(default=0.8, description="negative tokens below this ratio are masked")
    ratio_max: PositiveFloat = Field(default=1.2, description="positive tokens above this ratio are masked")
    target: OpenFraction = Field(default=0.45, description="share of the loss that positive tokens should carry")
    beta: PositiveFloat = Field(default=5.0, description="how steeply the weight answers to the share")
    mode: Literal["restore", "printed", "exact"] = Field(
        default="restore", description="sign of the answer: towards the target, as printed (away), or exactly to it"
    )


class Reinforce(Loss):
    """REINFORCE: -A log pi (RLOO with advantage mean leave_one_out)."""

    wants_anchor: ClassVar[Literal["behaviour", "proximal"]] = "behaviour"
    range_keys: ClassVar[tuple[str, ...]] = ()
    ratio_keys: ClassVar[tuple[str, ...]] = ()
    has_ratio: ClassVar[bool] = False

    name: Literal["reinforce"]


class GMPO(Loss):
    """GMPO (arXiv 2507.20673): geometric mean of clipped token ratios."""

    name: Literal["gmpo"]
    clip_low: PositiveFloat = Field(default=0.4, description="log ratio is clipped below at -clip_low")
    clip_high: PositiveFloat = Field(default=0.4, description="log ratio is clipped above at clip_high")


class SAPO(Loss):
    """SAPO: a soft gate in place of the clip."""

    range_keys: ClassVar[tuple[str, ...]] = ()
    ratio_keys: ClassVar[tuple[str, ...]] = ("tau_pos", "tau_neg")

    name: Literal["sapo"]
    tau_pos: PositiveFloat = Field(default=1.0, description="temperature of the gate where the advantage is positive")
    tau_neg: PositiveFloat = Field(default=1.05, description="temperature of the gate where the advantage is negative")


class ClipCov(_Offsets):
    """PPO clip that detaches a few tokens of high covariance (Clip-Cov, arXiv 2505.22617)."""

    name: Literal["clip_cov"]
    frac: OpenFraction = Field(default=2e-4, description="share of an update's tokens that lose their gradient")
    cov_low: float = Field(default=1.0, description="lowest covariance from which tokens are picked")
    cov_high: float = Field(default=5.0, description="highest covariance from which tokens are picked")

    @model_validator(mode="after")
    def _ordered(self) -> ClipCov:
        if self.cov_low >= self.cov_high:
            raise ValueError(f"cov_low {self.cov_low} must lie below cov_high {self.cov_high}")
        return self


class KLCov(Loss):
    """Policy gradient with a KL penalty on the tokens of highest covariance (KL-Cov, arXiv 2505.22617)."""

    range_keys: ClassVar[tuple[str, ...]] = ()
    ratio_keys: ClassVar[tuple[str, ...]] = ("frac", "coef")

    name: Literal["kl_cov"]
    frac: OpenFraction = Field(default=2e-3, description="share of an update's tokens that are penalised")
    coef: PositiveFloat = Field(default=1.0, description="weight of |log ratio| on those tokens")


LossSection = Annotated[
    PPOClip | CISPO | GSPO | BAPO | BAPOBalanced | Reinforce | GMPO | SAPO | ClipCov | KLCov,
    Field(discriminator="name"),
]
