"""One completion whose thinking is interrupted at a point drawn for it (ScaleRL, arXiv 2510.13786, section 2)."""

from __future__ import annotations

from headrace.config.sections import Recipe
from headrace.curation.interruption import Interruption, joined_rollout, second_prefix
from headrace.errors import ConfigError, DataError
from headrace.protocols import Sampler
from headrace.records import Prompt, Rollout, rollout_from_completions
from headrace.tasks.text import TextCodec


class Interrupted:
    """Samples up to the rollout's thinking budget, puts the text in, and samples the answer after it.

    A completion that ends before its budget is a plain single turn; one that is already answering goes on with nothing
    put in. The second call is a request of its own: its tokens follow the whole prefix, at their own positions of the
    rollout's noise, and may be of newer weights than the first part, which stays as it was sampled.
    """

    def __init__(self, rule: Interruption) -> None:
        self._rule = rule

    async def run(self, prompt: Prompt, sampler: Sampler, *, group_id: str, seed: int) -> list[Rollout]:
        """One rollout, not judged yet. The budget is a function of the seed, so a reissued attempt has the same one."""
        rule, rollout_id = self._rule, f"{group_id}/{seed}"
        thinking = await sampler.generate(prompt.token_ids, max_tokens=rule.budget(seed))
        move = rule.next_move(thinking)
        if move == "end":
            whole = rollout_from_completions(
                prompt, thinking, rollout_id=rollout_id, group_id=group_id, seed=seed, temperature=sampler.temperature
            )
            return [whole]
        injected = rule.injected_ids if move == "interrupt" else ()
        answer = await sampler.generate(second_prefix(prompt, thinking, injected), max_tokens=rule.answer_tokens)
        return [
            joined_rollout(
                prompt,
                thinking,
                injected,
                answer,
                rollout_id=rollout_id,
                group_id=group_id,
                seed=seed,
                temperature=sampler.temperature,
            )
        ]


def interruption_of(recipe: Recipe, codec: TextCodec) -> Interruption | None:
    """``algorithm.interruption`` in the model's tokens, or None where a recipe has none.

    Raises ``DataError`` for a text the tokenizer cannot write, and ``ConfigError`` when budget, injected text and
    answer do not fit ``sampling.max_completion_tokens`` (tokens).
    """
    part = recipe.algorithm.interruption
    if part is None:
        return None
    rule = Interruption(
        low=part.low,
        high=part.high,
        injected_ids=_ids(codec, "text", part.text, "another text"),
        closing_ids=_ids(codec, "closing", part.closing, "another mark, or null") if part.closing is not None else (),
        answer_tokens=part.answer_tokens,
    )
    limit = recipe.sampling.max_completion_tokens
    if rule.max_tokens > limit:
        raise ConfigError(
            f"algorithm.interruption takes up to {rule.max_tokens} tokens (high {part.high} + "
            f"{len(rule.injected_ids)} of the injected text + answer_tokens {part.answer_tokens}); allowed: at most "
            f"sampling.max_completion_tokens {limit}."
        )
    return rule


def _ids(codec: TextCodec, key: str, text: str, instead: str) -> tuple[int, ...]:
    try:
        ids = tuple(codec.encode_inside(text).tolist())
    except DataError as error:
        raise DataError(f"algorithm.interruption.{key}: {error} Allowed: {instead}.") from None
    if ends := set(ids) & set(codec.eos_token_ids):
        raise DataError(
            f"algorithm.interruption.{key} {text!r} contains {codec.token(min(ends))!r}, which ends a completion; "
            f"allowed: {instead}."
        )
    return ids
