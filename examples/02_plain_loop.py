"""The whole algorithm as one plain synchronous loop: no processes, no queues, no pipeline.

    python examples/02_plain_loop.py --steps 3

It uses the same engine, trainer and advantage code as
``headrace train demo async.max_lag=0 generator.deterministic=true``, but decides everything itself and in order: sample
all groups of a step with the weights of that step, judge them, train, hand the new weights over. The pipeline at
``max_lag: 0`` must give the same numbers bit for bit (``tests/e2e/test_plain_loop.py``), which is how we know that
asynchrony adds nothing of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from headrace.advantages.group_relative import with_advantages
from headrace.config.load import load_recipe
from headrace.config.sections import Recipe
from headrace.engines.embedded import EmbeddedEngine
from headrace.models.locate import resolve_model
from headrace.packing.batch import pack
from headrace.pipeline.seeds import derive_seed
from headrace.records import Completion, GenerationRequest, Group, Prompt, Rollout, StepResult, rollout_from_completions
from headrace.tasks.build import make_sources
from headrace.tasks.text import TextCodec
from headrace.training.trainer import PolicyTrainer
from headrace.verifiers.spec import make_verifier, spec_of


def sample(engine: EmbeddedEngine, requests: list[GenerationRequest]) -> dict[str, Completion]:
    """Submit everything, decode until nothing is left."""
    for request in requests:
        engine.submit(request)
    done: dict[str, Completion] = {}
    while engine.num_active or engine.num_waiting:
        done |= {completion.request_id: completion for completion in engine.step()}
    return done


def requests_for(prompt: Prompt, number: int, recipe: Recipe, stop: tuple[int, ...]) -> list[GenerationRequest]:
    return [
        GenerationRequest(
            request_id=f"{number}-{member}",
            prefix_ids=prompt.token_ids,
            seed=derive_seed(recipe.run.seed, "train", number, member),
            temperature=recipe.sampling.temperature,
            max_tokens=recipe.sampling.max_completion_tokens,
            stop_token_ids=stop,
        )
        for member in range(recipe.batch.group_size)
    ]


def plain_loop(recipe: Recipe, num_steps: int) -> Iterator[tuple[StepResult, list[Rollout], PolicyTrainer]]:
    """Yield the result of every step, the rollouts it trained, and the trainer as it is then."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.run.seed)
    files = resolve_model(recipe.model.path)
    codec = TextCodec(files.folder)
    prompts, _ = make_sources(recipe, codec, files.context_length)
    verify = make_verifier(spec_of(recipe))
    engine = EmbeddedEngine(str(files.folder), num_slots=recipe.generator.num_slots, deterministic=True)
    trainer = PolicyTrainer(str(files.folder), recipe, total_steps=recipe.run.steps)
    size = recipe.batch.groups_per_step

    for step in range(num_steps):
        engine.load_weights(trainer.publishable())
        numbers = range(step * size, (step + 1) * size)
        asked = {n: requests_for(prompts.at(n), n, recipe, codec.eos_token_ids) for n in numbers}
        completions = sample(engine, [request for requests in asked.values() for request in requests])

        groups = []
        for number in numbers:
            prompt = prompts.at(number)
            rollouts = []
            for request in asked[number]:
                completion = completions[request.request_id]
                rollout = rollout_from_completions(
                    prompt,
                    completion,
                    rollout_id=request.request_id,
                    group_id=str(number),
                    seed=request.seed,
                    temperature=request.temperature,
                )
                verdict = verify(codec.decode(completion.token_ids), prompt.row)
                rollouts.append(replace(rollout, verdict=verdict))
            groups.append(Group(group_id=str(number), prompt=prompt, admission=number, rollouts=tuple(rollouts)))

        algorithm = recipe.algorithm
        groups = with_advantages(groups, mean=algorithm.advantage.mean, scale=algorithm.advantage.scale)
        batch = pack(
            groups,
            step=step,
            lineage=0,
            max_lag=0,
            loss_weight=algorithm.loss_weight,
            num_minibatches=recipe.batch.num_minibatches,
            num_epochs=recipe.batch.num_epochs,
            micro_batch_tokens=recipe.batch.micro_batch_tokens,
        )
        yield trainer.step(batch), [r for g in groups for r in g.rollouts], trainer


def main() -> None:
    parser = argparse.ArgumentParser(description="The demo's recipe as one plain loop.")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--recipe", default="demo")
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, ["async.max_lag=0", "generator.deterministic=true"])
    for result, rollouts, _ in plain_loop(recipe, arguments.steps):
        passed = np.mean([r.verdict is not None and r.verdict.passed for r in rollouts])
        print(f"step {result.step}: pass rate {passed:.3f}, loss {result.metrics['loss/value']:+.4f}")


if __name__ == "__main__":
    main()
