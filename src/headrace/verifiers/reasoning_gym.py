"""reasoning-gym's own scoring of its generators' problems (an extra)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError
from headrace.records import Verdict
from headrace.verifiers.answer import after_thinking, final_number, parse_number

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_NAMED = re.compile(r"(?:\banswer\s*(?:is\b|:|=))\s*(.+)", re.IGNORECASE)
_FULL_SCORE = 1.0 - 1e-9


class ReasoningGymVerifier:
    """Reward is the generator's score in [0, 1] (some give part of it for part of an answer); passed is a full score.

    The answer is the last ``<answer>...</answer>``; without tags what follows the last "answer is", the last number
    where the gold is one, else the last line.
    """

    def __init__(self, generator: str, params: Mapping[str, Any]) -> None:
        try:
            import reasoning_gym
        except ImportError as error:
            raise ConfigError(
                f"the verifier of reasoning_gym/{generator} needs the package reasoning-gym ({error}): pip install "
                "'headrace[reasoning-gym]'."
            ) from None
        self.name = f"reasoning_gym/{generator}"
        self._dataset = reasoning_gym.create_dataset(generator, **{**params, "size": 1, "seed": 0})

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        text = after_thinking(completion)
        if text is None:
            return Verdict(reward=0.0, reason="thinking never ended")
        answer = read_answer(text, gold=str(row["answer"]))
        if answer is None:
            return Verdict(reward=0.0, reason="no answer")
        entry = {"question": row["prompt"], "answer": row["answer"], "metadata": row["metadata"]}
        score = float(self._dataset.score_answer(answer, entry))
        passed = score >= _FULL_SCORE
        return Verdict(reward=score, passed=passed, reason="" if passed else "not the answer", answer=answer[:200])


def read_answer(text: str, *, gold: str) -> str | None:
    """The answer as the model wrote it, or None when there is none."""
    if tagged := _TAGGED.findall(text):
        return tagged[-1].strip() or None
    if "<answer>" in text:
        return None  # begun and never finished
    if parse_number(gold) is not None:
        return final_number(text)
    if named := _NAMED.findall(text):
        return named[-1].strip().rstrip(".") or None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None
