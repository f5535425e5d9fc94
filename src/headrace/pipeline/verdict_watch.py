"""Ends a run whose verifier cannot judge: what it trains on would be noise."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import VerifierBroken
from headrace.records import Group

MIN_VERDICTS = 50  # before the share of broken ones is believed


class VerdictWatch:
    """Counts the verdicts of a run that are errors. More than ``max_error_frac`` of them are too many."""

    def __init__(self, verifier: str, max_error_frac: float) -> None:
        self._verifier, self._max_error_frac = verifier, max_error_frac
        self._num_verdicts = self._num_errors = 0
        self._last_error = ""

    def count(self, groups: Sequence[Group]) -> float:
        """Take the groups' verdicts in; returns the share of errors among them."""
        verdicts = [r.verdict for g in groups for r in g.rollouts if r.verdict is not None]
        errors = [v.error for v in verdicts if v.error is not None]
        self._num_verdicts += len(verdicts)
        self._num_errors += len(errors)
        self._last_error = errors[-1] if errors else self._last_error
        return len(errors) / max(len(verdicts), 1)

    def check(self) -> None:
        """Raises ``VerifierBroken`` when too many verdicts so far are errors."""
        if self._num_verdicts < MIN_VERDICTS or self._num_errors <= self._max_error_frac * self._num_verdicts:
            return
        raise VerifierBroken(
            f"verifier '{self._verifier}' could not judge {self._num_errors} of {self._num_verdicts} completions "
            f"(reward.max_error_frac allows {self._max_error_frac:g}); the last reason: {self._last_error}"
        )
