"""Groups that train in more than one step: bounded reuse.

Where they wait, and that the bound on lag holds for them too, is the ledger's (``pipeline/ledger.py``).
"""

from __future__ import annotations

from headrace.records import NO_VERSION, Group


def may_train_again(group: Group, uses: int, max_uses: int) -> bool:
    """Whether a group that ``uses`` steps have trained is worth another one: it has uses left, a signal, and a token
    the policy wrote. Give the group as it was judged: shaping and advantages belong to one batch."""
    return uses < max_uses and group.signal and group.oldest_version != NO_VERSION
