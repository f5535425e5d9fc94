"""The entropy bonus, with a fixed weight or one steered towards a target entropy."""

from __future__ import annotations

from headrace.objectives.inputs import LossInputs, TokenLoss, wanted


def entropy_bonus(x: LossInputs, *, coef: float) -> TokenLoss:
    """-coef H_t [T], H in nats over the whole vocabulary at the sampling temperature, with gradient.

    No statistics: the entropy is a figure of every run. Raises ``RecordError`` without ``x.entropy``.
    """
    return TokenLoss(value=-coef * wanted(x.entropy, "entropy", "entropy_bonus"), stats={})


def adapted_coef(coef: float, entropy: float, *, target: float, delta: float, coef_max: float) -> float:
    """The next weight: ``delta`` more at or below the target entropy, ``delta`` less above, within [0, coef_max].

    Skywork-OR1 (arXiv 2505.22312): target .2, delta .005. Being steered does not mean being applied: see
    ``applied_coef``.
    """
    moved = coef + delta if entropy <= target else coef - delta
    return min(max(moved, 0.0), coef_max)


def applied_coef(coef: float, entropy: float | None, *, target: float | None) -> float:
    """The weight in force: with a target the bonus acts only while the entropy (of the update before) is at or below
    it, hence not in the first update, whose entropy nobody knows yet (None)."""
    if target is None:
        return coef
    return coef if entropy is not None and entropy <= target else 0.0
