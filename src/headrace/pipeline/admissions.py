"""Which group is admitted next, and the numbers a resume needs to go on with the same ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.pipeline.checkpoint import ControllerState
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.records import NO_VERSION


class Admissions:
    """Groups that an earlier run left unfinished come first, under their old numbers; then the source goes on.

    ``reissue`` are those, by admission; ``next_admission`` and ``next_position`` (in the prompt source) are not given
    out yet.
    """

    def __init__(self, state: ControllerState | None, ledger: Ledger) -> None:
        self.next_position = state.next_position if state else 0
        self.next_admission = state.next_admission if state else 0
        self.reissue = _take_back(state.entries, ledger) if state else []

    def take(self) -> tuple[int, int, Outstanding | None]:
        """Admission number and prompt position of the next group, and what it was if it is sampled again."""
        if self.reissue:
            old = self.reissue.pop(0)
            return old.admission, old.position, old
        self.next_admission += 1
        self.next_position += 1
        return self.next_admission - 1, self.next_position - 1, None


def _take_back(entries: Iterable[Outstanding], ledger: Ledger) -> list[Outstanding]:
    """Put a checkpoint's finished groups into the ledger; return those that must be sampled again.

    Those are the unfinished ones, and finished ones that no longer fit (the bound was lowered for the resume).
    """
    again = [e for e in entries if not e.finished]
    ready = [replace(e, step=None) for e in entries if e.finished]
    while late := ledger.overdue(ready, ledger.next_step):
        ready.remove(late[0])
        again.append(late[0])
    for entry in ready:
        ledger.admit(entry)
    unsampled = [replace(e, group=None, group_version=NO_VERSION, step=None) for e in again]
    return sorted(unsampled, key=lambda e: e.admission)
