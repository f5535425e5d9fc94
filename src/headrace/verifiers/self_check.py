"""Before a run: does the verifier work on real rows, and does every gold answer pass its own verifier?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import ConfigError, DataError, VerifierBroken
from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.spec import VerifierSpec, gold_completion

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """``failed`` maps places in the rows to why their gold is not accepted, or why they cannot be judged at all."""

    num_rows: int
    failed: Mapping[int, str]


async def self_check(pool: VerifierPool, rows: Sequence[Row]) -> SelfCheck:
    """Judge each row's own gold in a running pool.

    Raises ``DataError`` with the row when the verifier raises on the first one: it would raise on every other one too.
    """
    spec = pool.spec
    if not rows:
        return SelfCheck(0, {})
    first = await pool.judge(gold_completion(spec, rows[0]), rows[0])
    if first.error is not None and not _gold_is_at_fault(spec, first.error):
        raise DataError(
            f"verifier '{spec.name}' fails on the first row: {first.error}. The row is {_show(rows[0])}; a reward "
            "function must return a list of numbers, one for each completion."
        )
    verdicts = await asyncio.gather(*(pool.judge(gold_completion(spec, row), row) for row in rows))
    failed = {
        i: verdict.error or verdict.reason or "not accepted"
        for i, (row, verdict) in enumerate(zip(rows, verdicts, strict=True))
        if verdict.error is not None or (spec.gold_must_pass(row) and not verdict.passed)
    }
    return SelfCheck(len(rows), failed)


def run_self_check(
    spec: VerifierSpec, rows: Sequence[Row], *, num_workers: int = 1, time_limit_s: float = 5.0
) -> SelfCheck:
    """``self_check`` in a pool of its own, for callers without an event loop.

    Raises ``ConfigError`` when the verifier cannot even be built, such as a function that is not there.
    """

    async def run() -> SelfCheck:
        pool = VerifierPool(spec, num_workers, time_limit_s)
        try:
            await pool.start()
        except VerifierBroken as error:
            raise ConfigError(str(error)) from None
        try:
            return await self_check(pool, rows)
        finally:
            await pool.close()

    return asyncio.run(run())


def _gold_is_at_fault(spec: VerifierSpec, error: str) -> bool:
    return (spec.judges_text and error.startswith("the gold answer")) or (
        spec.name == "code" and error.startswith("the tests:")
    )


def _show(row: Row) -> str:
    text = repr(dict(row))
    return text if len(text) <= 300 else text[:297] + "..."
