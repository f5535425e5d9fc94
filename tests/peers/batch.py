"""One seeded float64 batch in the two layouts: padded [B, W] with junk under the mask for the peers, flat [T] for ours.

Row 4 is fully masked, rows 1 and 6 have a gap (tool tokens) in the middle, lengths are ragged, groups unequal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.packing.loss_weights import token_weights

HORIZON = 16
LENGTHS = (5, 9, 2, 12, 0, 7, 10, 1, 6, 3)
FULL = tuple(n for n in LENGTHS if n)
"""Without the row that has no token: polgrad refuses it, TRL counts it."""
Kernel = Callable[..., TokenLoss]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tensors [B, W] float64 but ``mask`` (bool) and ``group`` [B] int64; ``advantage`` differs from token to token,
    ``row_advantage`` [B] does not."""

    mask: Tensor
    group: Tensor
    logprob: Tensor
    old: Tensor
    behaviour: Tensor
    reference: Tensor
    advantage: Tensor
    row_advantage: Tensor

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(1)

    @property
    def spread_advantage(self) -> Tensor:
        """``row_advantage`` on every token, [B, W]."""
        return self.row_advantage[:, None].expand_as(self.mask).clone()

    def flat(self, x: Tensor) -> Tensor:
        """The unmasked entries of [B, W] in row-major order, [T]."""
        return x[self.mask]

    @property
    def segment(self) -> Tensor:
        return torch.arange(len(self.mask))[:, None].expand_as(self.mask)[self.mask]

    def rows(self, keep: Tensor) -> Batch:
        """The batch of the rows at ``keep``."""
        return replace(self, **{name: getattr(self, name)[keep] for name in self.__dataclass_fields__})


def make_batch(
    *,
    lengths: tuple[int, ...] = (5, 9, 2, 12, 0, 7, 10, 1, 6, 3),
    gaps: bool = True,
    spread: float = 0.5,
    seed: int = 0,
) -> Batch:
    """``spread``: standard deviation of the log-ratios log pi - log pi_old; ``gaps``: tool tokens in rows 1 and 6."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    b, w = len(lengths), max(lengths) + 1
    mask = torch.arange(w)[None] < torch.tensor(lengths)[:, None]
    if gaps:
        mask[1, 3:5] = False
        mask[6, 4] = False
    old = -normal(b, w).abs() - 0.1
    group = torch.arange(b) * 3 // b
    batch = Batch(
        mask=mask,
        group=group,
        logprob=old + spread * normal(b, w),
        old=old,
        behaviour=old + 0.6 * normal(b, w),
        reference=old + 0.7 * normal(b, w),
        advantage=normal(b, w),
        row_advantage=normal(b),
    )
    return replace(batch, **{name: _junk(getattr(batch, name), mask) for name in ("logprob", "old", "advantage")})


def _junk(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, torch.full_like(x, -3.5))


@dataclass(frozen=True, slots=True)
class Result:
    """A scalar loss and its gradient with respect to the padded log-probabilities, [B, W]."""

    loss: float
    grad: Tensor


def headrace(
    batch: Batch, kernel: Kernel, rule: str = "token_mean", *, advantage: Tensor | None = None, **extra: Any
) -> Result:
    """Loss and gradient of ``kernel`` (parameters bound) under the loss weight ``rule``.

    ``extra``: further fields of LossInputs, padded [B, W].
    """
    flat = batch.flat(batch.logprob).clone().requires_grad_()
    x = LossInputs(
        logprob=flat,
        anchor_logprob=batch.flat(batch.old),
        advantage=batch.flat(batch.advantage if advantage is None else advantage),
        segment=batch.segment,
        reference_logprob=batch.flat(batch.reference),
        **{name: batch.flat(value) for name, value in extra.items()},
    )
    return weighted(batch, kernel(x).value, flat, rule)


def weighted(batch: Batch, value: Tensor, leaf: Tensor, rule: str) -> Result:
    """Sum ``value`` [T] with the loss weights of ``rule`` and differentiate with respect to ``leaf`` [T]."""
    loss = (value * weights(batch, rule)).sum()
    (grad,) = torch.autograd.grad(loss, leaf)
    padded = torch.zeros_like(batch.logprob)
    padded[batch.mask] = grad
    return Result(float(loss.detach()), padded)


def weights(batch: Batch, rule: str) -> Tensor:
    """The loss weight of every unmasked token, [T]."""
    horizon = {"horizon": HORIZON} if rule == "constant" else {}
    per_row = torch.from_numpy(token_weights(rule, batch.lengths.numpy(), batch.group.numpy(), **horizon))
    return per_row[batch.segment]


def peer(batch: Batch, loss_of: Callable[[Tensor], Tensor]) -> Result:
    """Loss and gradient of a peer that takes padded log-probabilities [B, W]."""
    leaf = batch.logprob.clone().requires_grad_()
    loss = loss_of(leaf)
    (grad,) = torch.autograd.grad(loss, leaf)
    return Result(float(loss.detach()), grad)


def assert_agree(ours: Result, theirs: Result, *, rtol: float = 1e-6) -> None:
    """Loss relative to itself, gradient relative to its norm. Neither may be 0: that would show nothing."""
    assert abs(theirs.loss) > 1e-6
    assert abs(ours.loss - theirs.loss) <= rtol * abs(theirs.loss), (ours.loss, theirs.loss)
    assert_same_grad(ours, theirs, rtol=rtol)


def assert_same_grad(ours: Result, theirs: Result, *, rtol: float = 1e-6) -> None:
    """||ours - theirs|| <= rtol ||theirs||."""
    size = theirs.grad.norm()
    assert size > 1e-6
    gap = (ours.grad - theirs.grad).norm()
    assert gap <= rtol * size, f"relative gap {float(gap / size):.3g}"


def assert_close(ours: Any, theirs: Any, *, rtol: float = 1e-6) -> None:
    """Arrays: the gap's norm relative to the norm of ``theirs``."""
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    assert a.shape == b.shape
    size = np.linalg.norm(b)
    assert size > 0
    assert np.linalg.norm(a - b) <= rtol * size, f"relative gap {np.linalg.norm(a - b) / size:.3g}"
