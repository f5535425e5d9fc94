"""The trivial environment: one prompt, one completion, one rollout."""

from __future__ import annotations

from headrace.protocols import Sampler
from headrace.records import Prompt, Rollout, rollout_from_completions


class SingleTurn:
    """Samples one completion of the prompt."""

    async def run(self, prompt: Prompt, sampler: Sampler, *, group_id: str, seed: int) -> list[Rollout]:
        """One rollout, not judged yet. Its id is the group's and the seed, so a reissued attempt has the same one."""
        completion = await sampler.generate(prompt.token_ids)
        return [
            rollout_from_completions(
                prompt,
                completion,
                rollout_id=f"{group_id}/{seed}",
                group_id=group_id,
                seed=seed,
                temperature=sampler.temperature,
            )
        ]
