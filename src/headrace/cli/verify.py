"""``headrace verify IN.jsonl --verifier NAME``: score rows with any verifier, before a run trusts it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from headrace.cli.verify_rows import GOLD_COLUMN, VerifyRow, read_rows
from headrace.errors import ConfigError, DataError, VerifierBroken
from headrace.records import Verdict
from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.spec import VerifierSpec, gold_completion

TIME_LIMIT_S = 10.0
"""Default limit of one judgement. The spec shortens it for text, and code has its own inside."""

MALFORMED = 2


def run_verify(options: argparse.Namespace) -> int:
    """Score, write, sum up. Returns 0, or 2 when a row was malformed."""
    spec = _spec(options.verifier, options.time_limit)
    rows, malformed = read_rows(Path(options.rows), spec)
    if malformed and not options.keep_going:
        more = f" ({len(malformed) - 1} more lines are malformed.)" if len(malformed) > 1 else ""
        raise DataError(f"{malformed[0]}{more} --keep-going scores the others.")
    with ExitStack() as stack:
        out = stack.enter_context(_opened(options.json)) if options.json else sys.stdout
        verdicts = asyncio.run(judge_rows(spec, rows, options.workers, options.time_limit or TIME_LIMIT_S))
        for row, verdict in zip(rows, verdicts, strict=True):
            out.write(json.dumps(as_row(row, verdict)) + "\n")
    for mistake in malformed:
        print(f"headrace: error: {mistake}", file=sys.stderr)
    print(summary(verdicts, len(malformed)), file=sys.stdout if options.json else sys.stderr)
    return MALFORMED if malformed else 0


async def judge_rows(
    spec: VerifierSpec, rows: Sequence[VerifyRow], num_workers: int, time_limit_s: float
) -> list[Verdict]:
    """Verdicts in the rows' order, from verifier processes that are ended from outside at the limit.

    A row whose gold fails its own verifier cannot be judged. Raises ``ConfigError`` when the verifier cannot be built.
    """
    pool = VerifierPool(spec, min(num_workers, max(1, len(rows))), time_limit_s)
    try:
        await pool.start()
    except VerifierBroken as error:
        raise ConfigError(str(error)) from None
    try:
        return await asyncio.gather(*(_judge(pool, row) for row in rows))
    finally:
        await pool.close()


async def _judge(pool: VerifierPool, row: VerifyRow) -> Verdict:
    verdict = await pool.judge(row.response, row.fields)
    if verdict.passed or not verdict.judged or not pool.spec.gold_must_pass(row.fields):
        return verdict
    gold = await pool.judge(gold_completion(pool.spec, row.fields), row.fields)
    if gold.passed:
        return verdict
    why = gold.error or gold.reason or "not accepted"
    return Verdict(reward=None, error=f"the gold fails its own verifier: {why}", time_s=verdict.time_s)


def as_row(row: VerifyRow, verdict: Verdict) -> dict[str, Any]:
    """What is written of a verdict."""
    return {
        "id": row.id,
        "verdict": kind(verdict),
        "reward": verdict.reward,
        "reason": verdict.reason if verdict.error is None else verdict.error,
        "time_s": round(verdict.time_s, 6),
    }


def kind(verdict: Verdict) -> str:
    """'right', 'wrong' or 'cannot_judge'."""
    return "cannot_judge" if not verdict.judged else "right" if verdict.passed else "wrong"


def summary(verdicts: Iterable[Verdict], num_malformed: int) -> str:
    """One line: how many of each verdict, and the time of one judgement."""
    verdicts = list(verdicts)
    counts = Counter(kind(verdict) for verdict in verdicts)
    times = np.array([verdict.time_s for verdict in verdicts] or [0.0])
    p50, p95 = np.percentile(times, [50, 95])
    said = [f"{counts[name]} {name}" for name in ("right", "wrong", "cannot_judge")]
    said += [f"{num_malformed} malformed"] if num_malformed else []
    return f"{len(verdicts)} rows: {', '.join(said)}; time p50 {p50:.4f} s, p95 {p95:.4f} s, max {times.max():.4f} s"


def _spec(name: str, time_limit_s: float | None) -> VerifierSpec:
    if time_limit_s is not None and time_limit_s <= 0:
        raise ConfigError(f"--time-limit: found {time_limit_s:g}; allowed: seconds above 0.")
    options = {"total_s": time_limit_s} if name == "code" and time_limit_s is not None else {}
    return VerifierSpec(name, answer_column=GOLD_COLUMN, options=options)


def _opened(path: str) -> IO[str]:
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from None
