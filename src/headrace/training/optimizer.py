"""AdamW over float32 master weights, whatever dtype the model computes and publishes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headrace.config.sections import OptimizerSection
from headrace.curation.schedules import warmup_factor
from headrace.training.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOutcome:
    """What one optimiser call did. ``applied`` False: the gradient was not finite and nothing changed."""

    applied: bool
    grad_norm: float  # before clipping
    lr: float
    update_norm: float  # Euclidean norm of the change of the master weights


class PolicyOptimizer:
    """Owns the master weights and their moments.

    A float32 (or float64) parameter is its own master. A bf16 model holds the rounded weights, exactly as published,
    and computes with them; its gradients are added up in float32 beside it after every backward pass, and each update
    rounds the new masters into it. Schedules count applied updates only.
    """

    def __init__(self, model: nn.Module, section: OptimizerSection, *, warmup: int) -> None:
        self._section = section
        self._warmup = warmup
        self._working = dict(model.named_parameters())
        self._masters = {name: _master_of(p) for name, p in self._working.items()}
        self._previous = [torch.empty_like(p) for p in self._masters.values()]
        self._adamw = torch.optim.AdamW(
            _decay_groups(self._masters.values(), section.weight_decay),
            lr=section.lr,
            betas=section.betas,
            eps=section.eps,
            fused=True,
        )
        self.updates_applied = 0
        for name, p in self._working.items():
            if self._masters[name] is not p:
                p.register_post_accumulate_grad_hook(_adds_into(self._masters[name]))

    def zero_grad(self) -> None:
        """Forget accumulated gradients."""
        self._adamw.zero_grad(set_to_none=True)

    def sum_gradients(self, ranks: Ranks) -> None:
        """Add up the gradients of all ranks; afterwards every rank holds the same ones."""
        if ranks.size == 1:
            return
        for p in self._masters.values():
            if p.grad is None:  # a rank that got no rows
                p.grad = torch.zeros_like(p)
        ranks.sum_tensors([p.grad for p in self._masters.values() if p.grad is not None])

    def apply(self) -> UpdateOutcome:
        """Clip, step, round. A gradient with NaN or infinity leaves weights, moments and schedule as they are."""
        masters = [p for p in self._masters.values() if p.grad is not None]
        norm = nn.utils.get_total_norm([p.grad for p in masters if p.grad is not None])
        lr = self._section.lr * warmup_factor(self.updates_applied, self._warmup)
        if not bool(torch.isfinite(norm)):
            self.zero_grad()
            return UpdateOutcome(applied=False, grad_norm=float(norm), lr=lr, update_norm=0.0)
        nn.utils.clip_grads_with_norm_(masters, self._section.max_grad_norm, norm)
        update_norm = self._step(lr)
        self.updates_applied += 1
        self.zero_grad()
        return UpdateOutcome(applied=True, grad_norm=float(norm), lr=lr, update_norm=update_norm)

    @torch.no_grad()
    def _step(self, lr: float) -> float:
        masters: list[Tensor] = list(self._masters.values())
        torch._foreach_copy_(self._previous, masters)
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        torch._foreach_sub_(self._previous, masters)
        self._round()
        return float(nn.utils.get_total_norm(self._previous))

    @torch.no_grad()
    def _round(self) -> None:
        for name, p in self._working.items():
            if self._masters[name] is not p:
                p.copy_(self._masters[name])

    def state_dict(self) -> dict[str, Any]:
        """Moments, counters and, for a bf16 model, the masters: with the model's weights, all an exact resume needs."""
        apart = {name: m.detach() for name, m in self._masters.items() if m is not self._working[name]}
        return {"adamw": self._adamw.state_dict(), "updates_applied": self.updates_applied, "masters": apart}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up ``state_dict``; the model's own weights are loaded by whoever loads the model."""
        self._adamw.load_state_dict(state["adamw"])
        self.updates_applied = int(state["updates_applied"])
        for name, value in state["masters"].items():
            self._masters[name].copy_(value)


def _master_of(parameter: nn.Parameter) -> nn.Parameter:
    exact = parameter.dtype in (torch.float32, torch.float64)
    return parameter if exact else nn.Parameter(parameter.detach().float())


def _adds_into(master: nn.Parameter) -> Any:
    def hook(parameter: Tensor) -> None:
        assert parameter.grad is not None
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad.add_(parameter.grad)
        parameter.grad = None

    return hook


def _decay_groups(parameters: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; norms and biases, whose zero means nothing, do not."""
    matrices: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    for p in parameters:
        (matrices if p.ndim >= 2 else vectors).append(p)
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
