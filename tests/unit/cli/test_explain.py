"""The batch arithmetic that ``explain`` says, worked out by hand."""

from headrace.cli.explain import sentences
from headrace.cli.main import main
from headrace.config.load import load


def text(*overrides, recipe="grpo"):
    return " ".join(sentences(load(recipe, overrides)))


SMALL = (
    "run.steps=10",
    "batch.groups_per_step=6",
    "batch.group_size=4",
    "batch.num_minibatches=2",
    "batch.num_epochs=3",
    "sampling.max_completion_tokens=100",
    "async.max_lag=2",
    "optimizer.warmup=0.1",
    "eval.every_steps=4",
    "eval.num_prompts=30",
    "eval.samples_per_prompt=2",
)


def test_batch_arithmetic():
    found = text(*SMALL)
    assert "6 prompts, one group each, and samples 4 completions per prompt" in found
    assert "24 completions of at most 100 tokens, so at most 2,400 sampled tokens a step" in found  # 6 x 4 x 100
    assert "60 prompts, 240 completions and at most 24,000 sampled tokens in all" in found
    assert "6 optimiser updates (3 passes over the batch in 2 mini-batches, about 3 groups = 12 completions" in found
    assert "60 updates in all" in found
    assert "rises over the first 6 updates" in found  # a tenth of 60


def test_lag_bound():
    found = text(*SMALL)
    assert "No token is trained more than 2 steps after the version that sampled it" in found
    assert "at most 18 groups are under way" in found  # (2 + 1) x 6
    assert "the synchronous mode" in text("async.max_lag=0")


def test_share_of_evaluation():
    # before, after step 4, after step 8, at the end: 4 x 60 completions beside 240 trained ones
    assert "30 held-out prompts x 2 completions = 60" in text(*SMALL)
    assert "4 evaluations counted by steps, 50% of all completions" in text(*SMALL)


def test_inherited_keys_without_effect_are_noted():
    assert "Note: 'eval.every_steps' has no effect: 10 steps never pass, run.steps is 5" in text(
        "run.steps=5", recipe="demo"
    )


def test_one_of_a_thing_is_not_plural():
    found = text("run.steps=1", "batch.num_minibatches=1", "batch.groups_per_step=1", "optimizer.warmup=0")
    assert "1 prompt, one group each" in found
    assert "1 optimiser update (1 pass over the batch in 1 mini-batch" in found


def test_command(capsys):
    assert main(["explain", "demo"]) == 0
    out = capsys.readouterr().out
    assert "Recipe 'demo'" in out
    assert max(map(len, out.splitlines()[1:])) <= 100


def test_recipes_lists_names_and_purposes(capsys):
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("demo ") and "bundled demo" in line for line in lines)
    assert any(line.startswith("cpu/grpo-smollm2 ") for line in lines)


def test_what_moves_during_the_run():
    found = text(*SMALL, "sampling.schedule.end=0.6", "async.schedule.end=1")
    assert "at temperature 1, evenly to 0.6 at the last step (a group keeps the temperature it began with)" in found
    assert "(async.max_lag: 2, 1 from step 9 on)" in found  # the last fifth of 10 steps, counted from 1
    found = text(
        *SMALL, "sampling.schedule.end=0.6", "sampling.schedule.shape=final", "async.schedule={end: 0, shape: linear}"
    )
    assert "at temperature 1, 0.6 from step 9 on (a group" in found
    assert "(async.max_lag: 2, evenly to 0 at the last step)" in found


def test_interruption():
    keys = ("low=6", "high=10", "text=stop", "answer_tokens=8")
    found = text(*(f"algorithm.interruption.{key}" for key in keys))
    assert (
        "Thinking is interrupted: a completion that has not written '</think>' by a point drawn between 6 and 10 "
        "tokens gets 'stop' put in, which is not trained on, and 8 tokens for its answer."
    ) in found
    found = text(*(f"algorithm.interruption.{key}" for key in (*keys, "closing=null")))
    assert "a completion that is still being written at a point drawn between 6 and 10 tokens" in found
