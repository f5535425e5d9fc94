"""Which group is admitted next, and the numbers a resume needs to go on with the same ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.pipeline.checkpoint import ControllerState
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.pipeline.parts import Parts
from headrace.records import NO_VERSION, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A group to be admitted. ``temperature`` is what it was sampled at before; None for a new group."""

    admission: int
    position: int  # in the prompt source
    prompt: Prompt
    temperature: float | None = None


class Admissions:
    """Groups that an earlier run left unfinished come first, under their old numbers and with the prompts they had;
    then the source goes on.

    ``reissue`` are those, by admission; ``next_admission`` and ``next_position`` (in the prompt source) are not given
    out yet.
    """

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._source, state = parts.train_source, parts.resume
        self.next_position = state.next_position if state else 0
        self.next_admission = state.next_admission if state else 0
        self.reissue = _take_back(state.entries, ledger, parts.recipe.async_.max_uses) if state else []
        if parts.curated is not None and state is not None:
            _restore(parts, state)

    def take(self) -> Turn:
        """The next group. Raises what the source raises; then no number was given out."""
        if self.reissue:
            old = self.reissue.pop(0)
            return Turn(admission=old.admission, position=old.position, prompt=old.prompt, temperature=old.temperature)
        turn = Turn(
            admission=self.next_admission, position=self.next_position, prompt=self._source.at(self.next_position)
        )
        self.next_admission += 1
        self.next_position += 1
        return turn


def _restore(parts: Parts, state: ControllerState) -> None:
    assert parts.curated is not None
    if state.curation is not None:
        parts.curated.load(state.curation)
    else:  # the attempts before retired nothing
        parts.curated.begin_at(state.next_position, state.next_admission)


def _take_back(entries: Iterable[Outstanding], ledger: Ledger, max_uses: int) -> list[Outstanding]:
    """Put a checkpoint's finished groups into the ledger; return those that must be sampled again.

    Those are the unfinished ones, and finished ones that no longer fit (the bound was lowered for the resume). Groups
    that have trained come back as far as they fit and may be used again, and are otherwise forgotten.
    """
    entries = list(entries)
    again = [e for e in entries if not e.finished]
    ready = [replace(e, step=None) for e in entries if e.finished and not e.uses]
    while late := ledger.overdue(ready, ledger.next_step):
        ready.remove(late[0])
        again.append(late[0])
    for entry in ready:
        ledger.admit(entry)
    ledger.put_back(e for e in entries if 0 < e.uses < max_uses)
    unsampled = [replace(e, group=None, group_version=NO_VERSION, step=None) for e in again]
    return sorted(unsampled, key=lambda e: e.admission)
