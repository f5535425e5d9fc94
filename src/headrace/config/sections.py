"""One strict model per section of a recipe. Unknown keys, wrong types and fighting keys are errors (see load.py)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.config.algorithm import AlgorithmSection
from headrace.config.base import (
    Device,
    Fraction,
    Momentum,
    NonNegativeFloat,
    NonNegativeInt,
    OpenFraction,
    PositiveFloat,
    PositiveInt,
    Section,
)


class RunSection(Section):
    """The run as a whole."""

    steps: PositiveInt = Field(default=100, description="training steps; a step consumes one batch and publishes once")
    seed: NonNegativeInt = Field(default=0, description="seeds prompt order, sampling noise and everything else")
    timeout_s: PositiveFloat = Field(
        default=120.0, description="longest wait of one role for another before the run ends, naming both"
    )


class ModelSection(Section):
    """The policy."""

    path: str = Field(
        default="bundled", min_length=1, description="'bundled', 'smollm2', a Hugging Face model folder, or a hub id"
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="dtype of the published weights and of sampling"
    )
    gradient_checkpointing: bool = Field(
        default=False, description="recompute activations in the backward pass to save memory"
    )


class TaskSection(Section):
    """Prompts and their gold answers."""

    name: str = Field(
        default="arithmetic",
        pattern=r"^(arithmetic|file|reasoning_gym/[a-z0-9_]+)$",
        description="'arithmetic' (bundled), 'file', or 'reasoning_gym/GENERATOR'",
    )
    path: str | None = Field(
        default=None, min_length=1, description="task 'file': JSONL or Parquet file of training rows"
    )
    eval_path: str | None = Field(
        default=None, min_length=1, description="task 'file': held-out rows; without it a fixed tenth is held out"
    )
    prompt_column: str = Field(default="prompt", min_length=1, description="task 'file': column with the prompt text")
    answer_column: str = Field(default="answer", min_length=1, description="task 'file': column with the gold answer")
    chat: bool = Field(default=False, description="wrap prompts with the model's chat template")
    params: dict[str, Any] = Field(default_factory=dict, description="parameters of the task's generator")
    bad_rows: Literal["error", "drop"] = Field(
        default="error",
        description="rows that are malformed, lack an answer or are too long: stop and name the row, or drop and count",
    )


class CodeSection(Section):
    """Verifier 'code': how programs under test are shut in and limited. A row's own ``limits`` go before these."""

    isolation: Literal["best", "bubblewrap", "namespaces", "rlimits"] = Field(
        default="best",
        description="the best this machine gives, or one kind, whose absence is an error; 'bubblewrap' and "
        "'namespaces' refuse asserts that would run beside the program",
    )
    time_limit_s: PositiveFloat = Field(default=4.0, description="wall time of one test")
    memory_mb: Annotated[int, Field(ge=64)] = Field(default=512, description="address space of a program")
    output_bytes: PositiveInt = Field(default=1_000_000, description="output of one test; more of it is wrong")
    partial_credit: bool = Field(
        default=False, description="reward is the share of tests that pass, instead of 1 for all of them"
    )
    solution_column: str = Field(
        default="solution",
        min_length=1,
        description="column with a right program, tried before a run where a row has one",
    )


class MathSection(Section):
    """Verifiers 'math', 'number' and 'exact': what settles cases that graders judge differently. A row's own fields of
    these names go before these."""

    tolerance: str | None = Field(
        default=None, pattern=r"^\d{1,12}(\.\d{1,12})?%?$", description="'10%' of the gold, or an absolute number"
    )
    rounding_digits: Annotated[int, Field(ge=0, le=30)] = Field(
        default=6, description="'math': a decimal may be the gold rounded to this many decimals, or more"
    )
    percent: Literal["same_number", "hundredth"] = Field(
        default="same_number", description="35% is 35 and 0.35, or 0.35 alone"
    )
    answer_source: Literal["after_think", "anywhere"] = Field(
        default="after_think", description="whether an answer in the thinking counts"
    )


class RewardSection(Section):
    """How completions are judged."""

    verifier: str = Field(
        default="task",
        pattern=r"^(task|exact|number|math|code|.+:[A-Za-z_][A-Za-z0-9_]*)$",
        description="'task' (its own), 'exact', 'number', 'math', 'code', or your function ('file.py:name', "
        "'a.module:name')",
    )
    num_workers: PositiveInt = Field(default=1, description="verifier processes")
    time_limit_s: PositiveFloat = Field(
        default=5.0, description="time limit of one verification, enforced from outside"
    )
    max_error_frac: Fraction = Field(default=0.05, description="stop when more than this share of verifications breaks")
    math: MathSection | None = Field(default=None, description="verifiers 'math', 'number', 'exact': their options")
    code: CodeSection | None = Field(default=None, description="verifier 'code': isolation and limits of programs")


class TemperatureSchedule(Section):
    """Article form: the sampling temperature moves during training."""

    end: PositiveFloat = Field(description="temperature at the end")
    shape: Literal["linear", "final"] = Field(default="linear", description="evenly, or at once for the last part")
    final_frac: OpenFraction = Field(default=0.2, description="shape 'final': the last part, as share of all steps")


class SamplingSection(Section):
    """How training completions are sampled. Truncated sampling (top_p, top_k) does not exist: it falsifies ratios."""

    temperature: PositiveFloat = Field(
        default=1.0, description="sampling temperature; log-probabilities are of the tempered policy"
    )
    max_completion_tokens: PositiveInt = Field(default=64, description="new tokens of one completion at most")
    schedule: TemperatureSchedule | None = Field(default=None, description="temperature that moves during training")


class BatchSection(Section):
    """Batch arithmetic. ``headrace explain RECIPE`` says it in sentences."""

    groups_per_step: PositiveInt = Field(default=32, description="groups (prompts) consumed by one step")
    group_size: PositiveInt = Field(default=8, description="completions per prompt")
    num_minibatches: PositiveInt = Field(default=1, description="optimiser updates per pass over the batch")
    num_epochs: PositiveInt = Field(default=1, description="passes over the batch in one step")
    micro_batch_tokens: PositiveInt = Field(
        default=8192, description="tokens (padding included) of one micro-batch at most"
    )


class LagSchedule(Section):
    """A bound that falls during training."""

    end: NonNegativeInt = Field(description="the bound at the end; at most async.max_lag")
    shape: Literal["linear", "final"] = Field(default="final", description="evenly, or at once for the last part")
    final_frac: OpenFraction = Field(default=0.2, description="shape 'final': the last part, as share of all steps")


class AsyncSection(Section):
    """Asynchrony and its bound."""

    max_lag: NonNegativeInt = Field(
        default=4, description="no token is trained more than this many steps after its weights; 0 = synchronous"
    )
    at_bound: Literal["wait", "drop"] = Field(
        default="wait", description="what happens to a group that would exceed the bound"
    )
    max_ready_batches: PositiveInt = Field(
        default=2, description="finished, unconsumed batches above which admission pauses"
    )
    max_uses: PositiveInt = Field(default=1, description="steps a group may train in, while its lag allows it")
    schedule: LagSchedule | None = Field(default=None, description="a bound that falls during training")


class OptimizerSection(Section):
    """AdamW and its schedule, counted in updates."""

    lr: PositiveFloat = Field(default=1e-6, description="peak learning rate")
    warmup: NonNegativeInt | Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0, description="updates (integer) or fraction of all updates"
    )
    weight_decay: NonNegativeFloat = Field(default=0.0, description="AdamW weight decay")
    betas: tuple[Momentum, Momentum] = Field(default=(0.9, 0.95), description="AdamW moments")
    eps: PositiveFloat = Field(default=1e-8, description="AdamW epsilon")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradient norm is clipped to this")


class GeneratorSection(Section):
    """The sampling side."""

    num_generators: PositiveInt = Field(default=1, description="generator processes")
    num_slots: PositiveInt = Field(default=64, description="sequences decoded at the same time by one generator")
    threads: PositiveInt = Field(default=1, description="compute threads of one generator")
    device: Device = Field(default="cpu", description="'cpu', 'cuda' or 'cuda:N'")
    deterministic: bool = Field(
        default=False, description="fixed decode shapes: a sample does not depend on who shares its batch"
    )


class TrainerSection(Section):
    """The training side."""

    num_ranks: PositiveInt = Field(default=1, description="data-parallel trainer processes (CPU)")
    threads: PositiveInt = Field(default=1, description="compute threads of the trainer")
    device: Device = Field(default="cpu", description="'cpu', 'cuda' or 'cuda:N'")


class EvalSection(Section):
    """Held-out evaluation, pinned to one version; it does not stop the pipeline."""

    every_steps: NonNegativeInt = Field(default=0, description="evaluate every N steps; 0 = not by steps")
    every_minutes: NonNegativeFloat = Field(default=0.0, description="evaluate every N minutes; 0 = not by time")
    num_prompts: PositiveInt = Field(default=256, description="held-out prompts of an evaluation")
    samples_per_prompt: PositiveInt = Field(
        default=1, description="completions per held-out prompt (for mean@n and pass@k)"
    )
    temperature: NonNegativeFloat = Field(
        default=1.0, description="temperature of evaluation completions; 0 = always the likeliest token"
    )


class CheckpointSection(Section):
    """Checkpoints: one folder each, complete or not there."""

    every_steps: NonNegativeInt = Field(default=0, description="checkpoint every N steps; 0 = not by steps")
    every_minutes: NonNegativeFloat = Field(default=30.0, description="checkpoint every N minutes; 0 = not by time")
    keep: PositiveInt = Field(default=2, description="newest checkpoints kept")


class TrackingSection(Section):
    """Where metrics go besides metrics.jsonl, which is always written."""

    also: tuple[Literal["tensorboard", "wandb"], ...] = Field(
        default=(), description="further trackers (extras of the same names)"
    )


class Recipe(Section):
    """A whole run."""

    run: RunSection = Field(default_factory=RunSection)
    model: ModelSection = Field(default_factory=ModelSection)
    task: TaskSection = Field(default_factory=TaskSection)
    reward: RewardSection = Field(default_factory=RewardSection)
    sampling: SamplingSection = Field(default_factory=SamplingSection)
    batch: BatchSection = Field(default_factory=BatchSection)
    async_: AsyncSection = Field(default_factory=AsyncSection, alias="async")
    algorithm: AlgorithmSection = Field(default_factory=AlgorithmSection)
    optimizer: OptimizerSection = Field(default_factory=OptimizerSection)
    generator: GeneratorSection = Field(default_factory=GeneratorSection)
    trainer: TrainerSection = Field(default_factory=TrainerSection)
    eval: EvalSection = Field(default_factory=EvalSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)
    tracking: TrackingSection = Field(default_factory=TrackingSection)
