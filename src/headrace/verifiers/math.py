"""Mathematical answers: found the way a careful grader would, compared exactly, math-verify for unusual notation.

Nothing a response says is ever run. Sizes are asked for before anything is computed; the pool ends from outside what
takes too long nevertheless.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headrace.records import Verdict
from headrace.verifiers.answer import answer_text
from headrace.verifiers.math_answer import Extracted, extract
from headrace.verifiers.math_compare import difference
from headrace.verifiers.math_options import MathOptions
from headrace.verifiers.math_text import normalise, squash

_WHOLE = 1000  # characters; a response so short may be the gold itself, word for word


class MathVerifier:
    """Reward 1 when the final answer and the gold are mathematically the same, else 0 with a reason.

    A row's own fields ``tolerance``, ``rounding_digits``, ``percent`` and ``answer_source`` come before ``options``.
    """

    name = "math"

    def __init__(self, answer_column: str = "answer", options: MathOptions | None = None) -> None:
        self._answer_column = answer_column
        self._options = options or MathOptions()
        import math_verify  # noqa: F401 - its import must not fall into the time of the first answer that needs it

        difference("\\frac{1}{2}", "0.51")

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        gold = gold_text(row.get(self._answer_column))
        if gold is None:
            return Verdict(
                reward=None, error=f"the gold answer {row.get(self._answer_column)!r:.80} is empty or no text"
            )
        try:
            options = self._options.for_row(row)
        except ValueError as error:
            return Verdict(reward=None, error=str(error))
        text = answer_text(completion, options.answer_source)
        if text is None:
            return Verdict(reward=0.0, reason="thinking never ended")
        found = extract(text)
        if found.answer is None:
            return Verdict(reward=0.0, reason=found.reason)
        reason = difference(found.answer, gold, options)
        if reason is not None and found.also:
            reason = difference(found.also, gold, options)
        if reason is not None and _is_word_for_word(text, gold, found):
            reason = None
        return Verdict(
            reward=float(reason is None), passed=reason is None, reason=reason or "", answer=found.answer[:200]
        )


def gold_text(value: Any) -> str | None:
    """The answer in a gold: of a box, behind ``####``, or the whole text. None when there is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    text = str(value)
    if "\\boxed" in text or "\\fbox" in text:
        return extract(text).answer
    _, marked, tail = text.rpartition("####")
    return (tail if marked else text).strip() or None


def _is_word_for_word(text: str, gold: str, found: Extracted) -> bool:
    """Whether a response without a box is the gold itself, words and all (``odd $n$``)."""
    return not found.boxed and len(text) <= _WHOLE and squash(normalise(text)) == squash(normalise(gold))
