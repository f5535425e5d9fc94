"""Which verifier judges a task: a small picklable description, and the class it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.config.sections import Recipe
from headrace.errors import ConfigError, nearest
from headrace.protocols import Verifier

TEXT_VERIFIERS = ("exact", "number", "math")


@dataclass(frozen=True, slots=True)
class VerifierSpec:
    """``name`` is 'exact', 'number', 'math', 'reasoning_gym/GENERATOR' or a function ('file.py:f', "
    "'package.module:f')."""

    name: str
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def judges_text(self) -> bool:
        """Whether the verifier compares with a gold text, which must then pass its own verifier."""
        return self.name in TEXT_VERIFIERS


def spec_of(recipe: Recipe) -> VerifierSpec:
    """The verifier of a recipe; ``reward.verifier: task`` is the task's own."""
    name = recipe.reward.verifier
    if name != "task":
        return VerifierSpec(name, recipe.task.prompt_column, recipe.task.answer_column)
    if recipe.task.name == "arithmetic":
        return VerifierSpec("number", options={"marker": "#"})
    if recipe.task.name.startswith("reasoning_gym/"):
        return VerifierSpec(recipe.task.name, options=dict(recipe.task.params))
    raise ConfigError(f"reward.verifier 'task': task '{recipe.task.name}' has no verifier of its own.")


def make_verifier(spec: VerifierSpec) -> Verifier:
    """Build the verifier (inside its process). Raises ``ConfigError`` for an unknown name or unusable function."""
    if spec.name == "exact":
        from headrace.verifiers.exact import ExactVerifier

        return ExactVerifier(spec.answer_column)
    if spec.name == "number":
        from headrace.verifiers.number import NumberVerifier

        return NumberVerifier(spec.answer_column, marker=spec.options.get("marker"))
    if spec.name == "math":
        from headrace.verifiers.math import MathVerifier

        return MathVerifier(spec.answer_column)
    if spec.name.startswith("reasoning_gym/"):
        from headrace.verifiers.reasoning_gym import ReasoningGymVerifier

        return ReasoningGymVerifier(spec.name.partition("/")[2], spec.options)
    if ":" in spec.name:
        from headrace.verifiers.function import FunctionVerifier

        return FunctionVerifier.load(spec.name, spec.prompt_column)
    raise ConfigError(
        f"reward.verifier: found '{spec.name}'; allowed: {', '.join(TEXT_VERIFIERS)}, or your function as "
        f"'file.py:name'.{nearest(spec.name, TEXT_VERIFIERS)}"
    )


def gold_completion(spec: VerifierSpec, row: Mapping[str, Any]) -> str:
    """A completion that answers with the row's gold, in the form this verifier reads; '' without a gold."""
    gold = row.get(spec.answer_column)
    if gold is None:
        return ""
    if spec.name == "math":
        text = str(gold)
        return text if "\\boxed" in text else f"\\boxed{{{text}}}"
    if spec.name == "number" and "#" not in str(gold):
        return f"#{gold}"
    if spec.name.startswith("reasoning_gym/"):
        return f"<answer>{gold}</answer>"
    return str(gold)
