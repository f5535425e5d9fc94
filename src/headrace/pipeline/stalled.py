"""What a run that does not move is waiting for, in words."""

from __future__ import annotations

from headrace.pipeline.gate import Gate
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.ledger import Ledger


def owed(pool: GeneratorPool) -> str:
    """What each generator has been asked for and has not answered."""
    return ", ".join(f"'{s.name}' {len(s.owed)} completions" for s in pool.states.values())


def missing_groups(ledger: Ledger, pool: GeneratorPool, gate: Gate) -> str:
    """Why no batch can be cut: groups that are not finished, or a gate that lets none in."""
    unfinished = [e for e in ledger.waiting() if not e.finished]
    if not unfinished:
        return f"the admission gate to open ({_shut(ledger, pool, gate)})"
    first = unfinished[0]
    return (
        f"{len(unfinished)} unfinished groups, the oldest being group {first.admission} on generator "
        f"'{first.generator}' (its completions or their verdicts); generators owe {owed(pool)}"
    )


def _shut(ledger: Ledger, pool: GeneratorPool, gate: Gate) -> str:
    return ", ".join(
        f"generator '{s.name}' at version {s.acked_version}: "
        f"{gate.decide(ledger, s.acked_version).reason or 'no free slot'}"
        for s in pool.states.values()
    )
