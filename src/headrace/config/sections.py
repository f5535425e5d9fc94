"""One strict model per section of a recipe. Unknown keys, wrong types and fighting keys are errors (see load.py)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """Strict base: no unknown keys, no silent conversions (an int is accepted where a float is meant)."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, validate_default=True, allow_inf_nan=False, populate_by_name=True
    )


PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Device = Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]+)?)$")]


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


class RewardSection(Section):
    """How completions are judged."""

    verifier: str = Field(
        default="task",
        pattern=r"^(task|exact|number|math|.+:[A-Za-z_][A-Za-z0-9_]*)$",
        description="'task' (its own), 'exact', 'number', 'math', or your function ('file.py:name', 'a.module:name')",
    )
    num_workers: PositiveInt = Field(default=1, description="verifier processes")
    time_limit_s: PositiveFloat = Field(
        default=5.0, description="time limit of one verification, enforced from outside"
    )
    max_error_frac: Fraction = Field(default=0.05, description="stop when more than this share of verifications breaks")


class SamplingSection(Section):
    """How training completions are sampled. Truncated sampling (top_p, top_k) does not exist: it falsifies ratios."""

    temperature: PositiveFloat = Field(
        default=1.0, description="sampling temperature; log-probabilities are of the tempered policy"
    )
    max_completion_tokens: PositiveInt = Field(default=64, description="new tokens of one completion at most")


class BatchSection(Section):
    """Batch arithmetic. ``headrace explain RECIPE`` says it in sentences."""

    groups_per_step: PositiveInt = Field(default=32, description="groups (prompts) consumed by one step")
    group_size: PositiveInt = Field(default=8, description="completions per prompt")
    num_minibatches: PositiveInt = Field(default=1, description="optimiser updates per pass over the batch")
    num_epochs: PositiveInt = Field(default=1, description="passes over the batch in one step")
    micro_batch_tokens: PositiveInt = Field(
        default=8192, description="tokens (padding included) of one micro-batch at most"
    )


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


class PPOClip(Section):
    """PPO's clipped surrogate (arXiv 1707.06347 eq. 7; asymmetric range arXiv 2503.14476)."""

    name: Literal["ppo_clip"]
    clip_low: PositiveFloat = Field(default=0.2, description="ratio is clipped below at 1 - clip_low")
    clip_high: PositiveFloat = Field(default=0.2, description="ratio is clipped above at 1 + clip_high")

    @model_validator(mode="after")
    def _sane(self) -> PPOClip:
        if self.clip_low >= 1:
            raise ValueError(f"clip_low {self.clip_low} is an offset below 1; found >= 1")
        return self


class CISPO(Section):
    """CISPO (arXiv 2506.13585 eq. 4-5; one-sided cap as in ScaleRL, arXiv 2510.13786)."""

    name: Literal["cispo"]
    ratio_max: PositiveFloat = Field(
        default=5.0, description="absolute cap on the importance ratio (ScaleRL: 4, 5 or 8)"
    )


LossSection = Annotated[PPOClip | CISPO, Field(discriminator="name")]


class AlgorithmSection(Section):
    """An algorithm is a row of parts."""

    advantage_mean: Literal["none", "group", "leave_one_out", "batch"] = Field(
        default="group",
        description="level whose mean reward is the baseline; leave_one_out = the group's other members",
    )
    advantage_scale: Literal["none", "group", "batch"] = Field(
        default="group", description="level whose standard deviation scales"
    )
    loss: LossSection = Field(
        default_factory=lambda: PPOClip(name="ppo_clip"), description="the objective and its keys"
    )
    loss_weight: Literal["token_mean", "sample_mean", "prompt_mean"] = Field(
        default="sample_mean", description="how token losses are averaged"
    )
    zero_variance: Literal["keep", "shrink", "refill"] = Field(
        default="keep", description="groups with equal rewards: train, blank, or replace"
    )


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
    temperature: PositiveFloat = Field(default=1.0, description="temperature of evaluation completions")


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
