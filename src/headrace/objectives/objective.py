"""The whole loss of a recipe, put together from its parts by data: what the trainer sees of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.errors import ConfigError, RecordError, nearest
from headrace.objectives.adaptive_clip import entropy_clip_factor, scaled_range
from headrace.objectives.entropy import adapted_coef, applied_coef, entropy_bonus
from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.objectives.kl import kl_penalty
from headrace.objectives.table import AnchorRule, Loss, keys_of, loss_named
from headrace.objectives.update_figures import UpdateFigures, UpdateTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveState:
    """What an objective remembers from update to update; part of the checkpoint. None: no update was applied yet."""

    previous_entropy: float | None = None  # nats, mean over the trainable tokens of the update before, on all ranks
    entropy_coef: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, float | None]) -> AdaptiveState:
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A kernel with its update-wide figures, moved clip range, KL penalty and entropy bonus. A part that is None does
    not exist. ``clip_scale`` of its methods widens the clip range by a schedule's factor, on both sides."""

    row: Loss
    parameters: Mapping[str, Any]
    anchor: str = "auto"
    adaptive_clip: Mapping[str, Any] | None = None
    kl: Mapping[str, Any] | None = None
    entropy: Mapping[str, Any] | None = None
    _kernel_keys: frozenset[str] = field(init=False)
    _figure_keys: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kernel_keys", keys_of(self.row.kernel))
        object.__setattr__(self, "_figure_keys", keys_of(self.row.figures))

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of the reference model are wanted, for the loss or for the reward."""
        return self.kl is not None

    @property
    def needs_figures(self) -> bool:
        """Whether ``loss`` wants ``figures`` of the whole update, at the weights it starts from."""
        return self.row.figures is not None

    @property
    def entropy_has_grad(self) -> bool:
        """Whether ``LossInputs.entropy`` must carry gradient."""
        return self.entropy is not None

    @property
    def all_corrected(self) -> bool:
        """Whether a correction weight of 0 leaves nothing of a token in the loss."""
        apart = self.kl is not None and self.kl["into"] == "loss" and not self.kl.get("importance")
        return self.entropy is None and not apart

    def anchor_for(self, num_updates: int) -> AnchorRule:
        """What the ratio divides by in a step of ``num_updates`` updates."""
        if self.anchor == "behaviour":
            return "behaviour"
        return "proximal" if self.anchor == "proximal" else self.row.anchor_for(num_updates)

    def figures(
        self, tokens: UpdateTokens, state: AdaptiveState | None = None, *, clip_scale: float = 1.0
    ) -> UpdateFigures:
        """Figures of one update from all its tokens on all ranks; empty when the kernel wants none."""
        if self.row.figures is None:
            return UpdateFigures()
        return self.row.figures(tokens, **self._arguments(self._figure_keys, state or AdaptiveState(), clip_scale))

    def loss(
        self, x: LossInputs, figures: UpdateFigures | None, state: AdaptiveState, *, clip_scale: float = 1.0
    ) -> TokenLoss:
        """The loss of one micro-batch's tokens, all parts added, with the statistics of all parts.

        Raises ``RecordError`` when the kernel needs figures of the update and there are none.
        """
        arguments = self._arguments(self._kernel_keys, state, clip_scale)
        if self.needs_figures:
            if figures is None:
                raise RecordError("this objective needs figures of the whole update, and got none")
            arguments |= figures.values
        total = self.row.kernel(x, **arguments)
        if self.kl is not None and self.kl["into"] == "loss":
            total = _joined(total, kl_penalty(x, **_some(self.kl, ("estimator", "coef", "importance"))))
        if (coef := self._entropy_coef(state)) > 0:
            total = _joined(total, entropy_bonus(x, coef=coef))
        return total

    def next_state(self, state: AdaptiveState, *, entropy: float) -> AdaptiveState:
        """The state after an applied update of mean ``entropy``. An update that was skipped changes nothing."""
        coef = None
        if self.entropy is not None and self.entropy["target"] is not None:
            now = self.entropy["coef"] if state.entropy_coef is None else state.entropy_coef
            coef = adapted_coef(now, entropy, **_some(self.entropy, ("target", "delta", "coef_max")))
        return AdaptiveState(previous_entropy=entropy, entropy_coef=coef)

    def state_metrics(self, state: AdaptiveState) -> dict[str, float]:
        """What the parts that adapt are set to for the update that ``state`` precedes."""
        metrics: dict[str, float] = {}
        if self.adaptive_clip is not None:
            metrics["clip_factor"] = self._clip_factor(state)
        if self.entropy is not None:
            metrics["entropy_coef"] = self._entropy_coef(state)
        return metrics

    def _arguments(self, keys: frozenset[str], state: AdaptiveState, clip_scale: float) -> dict[str, Any]:
        moved = scaled_range(self.parameters, clip_scale) if clip_scale != 1.0 else self.parameters
        if self.adaptive_clip is not None:
            moved = scaled_range(moved, self._clip_factor(state), side=self.adaptive_clip["side"])
        return {key: value for key, value in moved.items() if key in keys}

    def _clip_factor(self, state: AdaptiveState) -> float:
        if self.adaptive_clip is None:
            return 1.0
        part = self.adaptive_clip
        sign = 1 if part["sign"] == "formula" else -1
        return entropy_clip_factor(
            state.previous_entropy, target=part["target_entropy"], alpha=part["alpha"], sign=sign
        )

    def _entropy_coef(self, state: AdaptiveState) -> float:
        if self.entropy is None:
            return 0.0
        coef = self.entropy["coef"] if state.entropy_coef is None else state.entropy_coef
        return applied_coef(coef, state.previous_entropy, target=self.entropy["target"])


def build_objective(section: Mapping[str, Any]) -> Objective:
    """The objective of an ``algorithm`` section given as plain data: of its keys ``loss``, ``anchor``,
    ``adaptive_clip``, ``kl`` and ``entropy`` are read. A KL weight of 0 is no KL, and then no reference is needed; the
    same for the entropy bonus without a target.

    Raises ``ConfigError`` for an unknown objective or a key it does not have.
    """
    parameters = dict(section["loss"])
    name = parameters.pop("name")
    row = loss_named(name)
    known = keys_of(row.kernel) | keys_of(row.figures)
    for key in parameters:
        if key not in known:
            raise ConfigError(f"algorithm.loss.{key}: objective {name!r} has no such key.{nearest(key, known)}")
    kl, entropy = section.get("kl"), section.get("entropy")
    return Objective(
        row=row,
        parameters=parameters,
        anchor=section.get("anchor", "auto"),
        adaptive_clip=section.get("adaptive_clip"),
        kl=kl if kl and kl["coef"] > 0 else None,
        entropy=entropy if entropy and (entropy["coef"] > 0 or entropy["target"] is not None) else None,
    )


def _some(part: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: part[key] for key in keys if key in part}


def _joined(first: TokenLoss, second: TokenLoss) -> TokenLoss:
    return TokenLoss(value=first.value + second.value, stats={**first.stats, **second.stats})
