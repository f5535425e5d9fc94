"""Number match: the completion's final number is the gold number, compared exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.records import Verdict
from headrace.verifiers.answer import after_marker, answer_text, as_gold, final_number, parse_number
from headrace.verifiers.math_options import MathOptions


class NumberVerifier:
    """Reward 1 when the final number (see ``answer.final_number``) equals the gold as a fraction, else 0.

    With ``marker`` only what stands after its last occurrence counts, and that must be one number and nothing else. A
    gold that is a worked solution (``... #### 18``) is read like a completion. Of ``options`` all but
    ``rounding_digits`` count; a row may set its own.
    """

    name = "number"

    def __init__(
        self, answer_column: str = "answer", *, marker: str | None = None, options: MathOptions | None = None
    ) -> None:
        self._answer_column = answer_column
        self._options = options or MathOptions()
        self._marker = marker

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        gold_text = str(row[self._answer_column])
        gold = parse_number(gold_text) or parse_number(final_number(gold_text) or "")
        if gold is None:
            return Verdict(reward=None, error=f"the gold answer {gold_text[:80]!r} is not a number")
        try:
            options = self._options.for_row(row)
        except ValueError as error:
            return Verdict(reward=None, error=str(error))
        text = answer_text(completion, options.answer_source)
        if text is None:
            return Verdict(reward=0.0, reason="thinking never ended")
        answer = after_marker(text, self._marker) if self._marker else final_number(text)
        if answer is None:
            return Verdict(
                reward=0.0, reason="no number" if self._marker is None else f"no answer after {self._marker!r}"
            )
        value = parse_number(answer)
        if value is None:
            return Verdict(reward=0.0, reason="not a number", answer=answer[:200])
        right = any(a == gold[0] or options.within(a, gold[0]) for a in as_gold(value, gold, options.percent))
        return Verdict(reward=float(right), passed=right, reason="" if right else "another number", answer=answer)
