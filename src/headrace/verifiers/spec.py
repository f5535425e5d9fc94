"""Which verifier judges a task: a small picklable description, and the class it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, nearest
from headrace.protocols import Verifier

if TYPE_CHECKING:  # a verifier process needs no recipe, and starts in half the time without
    from headrace.config.sections import Recipe
    from headrace.verifiers.code import CodeOptions
    from headrace.verifiers.math_options import MathOptions

TEXT_VERIFIERS = ("exact", "number", "math")
VERIFIERS = (*TEXT_VERIFIERS, "code")

TEXT_LIMIT_S = 1.0
"""No answer is worth more: what is readable takes milliseconds, and what would take for ever is wrong."""


@dataclass(frozen=True, slots=True)
class VerifierSpec:
    """``name`` is 'exact', 'number', 'math', 'code', 'reasoning_gym/GENERATOR' or a function ('file.py:f',
    'package.module:f'). ``options`` of 'code': keys of ``reward.code``, and ``total_s`` for all tests together; of the
    text verifiers: fields of ``MathOptions``."""

    name: str
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def judges_text(self) -> bool:
        """Whether the verifier compares with a gold text, which must then pass its own verifier."""
        return self.name in TEXT_VERIFIERS

    def gold_must_pass(self, row: Mapping[str, Any]) -> bool:
        """Whether the row has a gold that its own verifier must accept (for code: a right program)."""
        return self.judges_text or (self.name == "code" and bool(row.get(self._solution_column)))

    def outer_limit_s(self, row: Mapping[str, Any], time_limit_s: float) -> float:
        """When a judgement is ended from outside: text at ``TEXT_LIMIT_S`` or before. Code ends its programs itself, at
        limits that rows may set."""
        if self.judges_text:
            return min(time_limit_s, TEXT_LIMIT_S)
        if self.name != "code":
            return time_limit_s
        from headrace.verifiers.code import outer_limit_s

        return max(time_limit_s, outer_limit_s(row, code_options(self.options)))

    @property
    def _solution_column(self) -> str:
        return str(self.options.get("solution_column", "solution"))


def spec_of(recipe: Recipe) -> VerifierSpec:
    """The verifier of a recipe; ``reward.verifier: task`` is the task's own."""
    name = recipe.reward.verifier
    if name != "task":
        options = _code_section(recipe) if name == "code" else _math_section(recipe)
        return VerifierSpec(name, recipe.task.prompt_column, recipe.task.answer_column, options)
    if recipe.task.name == "arithmetic":
        return VerifierSpec("number", options={"marker": "#"})
    if recipe.task.name.startswith("reasoning_gym/"):
        return VerifierSpec(recipe.task.name, options=dict(recipe.task.params))
    raise ConfigError(f"reward.verifier 'task': task '{recipe.task.name}' has no verifier of its own.")


def make_verifier(spec: VerifierSpec) -> Verifier:
    """Build the verifier (inside its process). Raises ``ConfigError`` for an unknown name or unusable function."""
    if spec.name == "exact":
        from headrace.verifiers.exact import ExactVerifier

        return ExactVerifier(spec.answer_column, math_options(spec))
    if spec.name == "number":
        from headrace.verifiers.number import NumberVerifier

        return NumberVerifier(spec.answer_column, marker=spec.options.get("marker"), options=math_options(spec))
    if spec.name == "math":
        from headrace.verifiers.math import MathVerifier

        return MathVerifier(spec.answer_column, math_options(spec))
    if spec.name == "code":
        from headrace.verifiers.code import CodeVerifier

        return CodeVerifier(spec.answer_column, code_options(spec.options))
    if spec.name.startswith("reasoning_gym/"):
        from headrace.verifiers.reasoning_gym import ReasoningGymVerifier

        return ReasoningGymVerifier(spec.name.partition("/")[2], spec.options)
    if ":" in spec.name:
        from headrace.verifiers.function import FunctionVerifier

        return FunctionVerifier.load(spec.name, spec.prompt_column)
    raise ConfigError(
        f"reward.verifier: found '{spec.name}'; allowed: {', '.join(VERIFIERS)}, or your function as "
        f"'file.py:name'.{nearest(spec.name, VERIFIERS)}"
    )


def math_options(spec: VerifierSpec) -> MathOptions:
    """Options of the text verifiers from those of their spec. Raises ``ConfigError`` for a value of no use."""
    from headrace.verifiers.math_options import KEYS, MathOptions

    try:
        return MathOptions.of({key: spec.options[key] for key in KEYS if key in spec.options})
    except ValueError as error:
        raise ConfigError(f"options of verifier '{spec.name}': {error}") from None


def code_options(options: Mapping[str, Any]) -> CodeOptions:
    """Options of the code verifier from those of its spec; what is not there has its default."""
    from headrace.verifiers.code import CodeOptions
    from headrace.verifiers.sandbox.session import Limits

    usual = CodeOptions()
    limits = Limits(
        time_s=float(options.get("time_limit_s", usual.limits.time_s)),
        memory_bytes=int(options.get("memory_mb", usual.limits.memory_bytes >> 20)) << 20,
        output_bytes=int(options.get("output_bytes", usual.limits.output_bytes)),
    )
    return CodeOptions(
        isolation=str(options.get("isolation", usual.isolation)),
        total_s=float(options.get("total_s", usual.total_s)),
        limits=limits,
        partial_credit=bool(options.get("partial_credit", usual.partial_credit)),
    )


def _code_section(recipe: Recipe) -> dict[str, Any]:
    from headrace.config.sections import CodeSection

    section = recipe.reward.code or CodeSection()
    return {**section.model_dump(), "total_s": recipe.reward.time_limit_s}


def _math_section(recipe: Recipe) -> dict[str, Any]:
    return {} if recipe.reward.math is None else recipe.reward.math.model_dump(exclude_none=True)


def gold_completion(spec: VerifierSpec, row: Mapping[str, Any]) -> str:
    """A completion that answers with the row's gold, in the form this verifier reads; '' without a gold."""
    if spec.name == "code":
        from headrace.verifiers.code_block import as_response

        solution = row.get(spec.options.get("solution_column", "solution"))
        return as_response(str(solution)) if solution else ""
    gold = row.get(spec.answer_column)
    if gold is None:
        return ""
    if spec.name == "math":
        from headrace.verifiers.math import gold_text

        return f"\\boxed{{{gold_text(gold) or ''}}}"
    if spec.name == "number" and "#" not in str(gold):
        return f"#{gold}"
    if spec.name.startswith("reasoning_gym/"):
        return f"<answer>{gold}</answer>"
    return str(gold)
