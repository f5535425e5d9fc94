"""Exact match: the completion is the gold answer, surrounding white space and thinking aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.records import Verdict
from headrace.verifiers.answer import answer_text
from headrace.verifiers.math_options import MathOptions


class ExactVerifier:
    """Reward 1 for the gold text, 0 for any other. Of ``options``, ``answer_source`` counts; a row may set its own."""

    name = "exact"

    def __init__(self, answer_column: str = "answer", options: MathOptions | None = None) -> None:
        self._answer_column = answer_column
        self._options = options or MathOptions()

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        gold = str(row[self._answer_column]).strip()
        try:
            source = self._options.for_row(row).answer_source
        except ValueError as error:
            return Verdict(reward=None, error=str(error))
        answer = answer_text(completion, source)
        if answer is None:
            return Verdict(reward=0.0, reason="thinking never ended")
        answer = answer.strip()
        if not answer:
            return Verdict(reward=0.0, reason="empty")
        right = answer == gold
        return Verdict(reward=float(right), passed=right, reason="" if right else "not the gold text", answer=answer)
