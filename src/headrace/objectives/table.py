"""The objectives by name. Adding one is a function in a file of its own, a row here, and a config section."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.errors import ConfigError, nearest
from headrace.objectives.bapo import bapo
from headrace.objectives.bapo_balanced import balance_weight, balanced_clip
from headrace.objectives.bapo_bounds import bapo_bounds
from headrace.objectives.cispo import cispo
from headrace.objectives.covariance import clip_cov, clip_cov_selection, kl_cov, kl_cov_selection
from headrace.objectives.gmpo import gmpo
from headrace.objectives.gspo import gspo
from headrace.objectives.inputs import TokenLoss
from headrace.objectives.ppo_clip import ppo_clip
from headrace.objectives.reinforce import reinforce
from headrace.objectives.sapo import sapo
from headrace.objectives.update_figures import UpdateFigures

AnchorRule = Literal["behaviour", "proximal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A kernel and what it wants from the trainer.

    ``anchor`` 'behaviour': the ratio always divides by the recorded log-probability. 'proximal': it divides by the
    log-probability at the start of the step when the step makes more than one update, with a truncated correction for
    the rest (with one update a proximal ratio is 1 throughout and every clip range inert, so the behaviour anchor is
    used). ``figures``: from all tokens of an update at the current weights to values the kernel takes, or None.
    """

    kernel: Callable[..., TokenLoss]
    anchor: AnchorRule
    figures: Callable[..., UpdateFigures] | None = None

    def anchor_for(self, num_updates: int) -> AnchorRule:
        """The anchor in force for a step of ``num_updates`` updates."""
        return self.anchor if num_updates > 1 else "behaviour"


LOSSES: Mapping[str, Loss] = {
    "ppo_clip": Loss(kernel=ppo_clip, anchor="proximal"),
    "cispo": Loss(kernel=cispo, anchor="behaviour"),
    "gspo": Loss(kernel=gspo, anchor="proximal"),
    "bapo": Loss(kernel=bapo, anchor="behaviour", figures=bapo_bounds),
    "bapo_balanced": Loss(kernel=balanced_clip, anchor="behaviour", figures=balance_weight),
    "reinforce": Loss(kernel=reinforce, anchor="behaviour"),
    "gmpo": Loss(kernel=gmpo, anchor="proximal"),
    "sapo": Loss(kernel=sapo, anchor="proximal"),
    "clip_cov": Loss(kernel=clip_cov, anchor="proximal", figures=clip_cov_selection),
    "kl_cov": Loss(kernel=kl_cov, anchor="proximal", figures=kl_cov_selection),
}


def loss_named(name: str) -> Loss:
    """The row of ``LOSSES``. Raises ``ConfigError`` naming the nearest spelling."""
    if name not in LOSSES:
        raise ConfigError(
            f"algorithm.loss.name: no objective {name!r}; there are {', '.join(LOSSES)}.{nearest(name, LOSSES)}"
        )
    return LOSSES[name]


def keys_of(function: Callable[..., Any] | None) -> frozenset[str]:
    """The keyword-only arguments of a kernel or of a figures function: what a recipe can set."""
    if function is None:
        return frozenset()
    parameters = inspect.signature(function).parameters.values()
    return frozenset(entry.name for entry in parameters if entry.kind is inspect.Parameter.KEYWORD_ONLY)
