"""Every key of an algorithm, other values for it, and where one sees that it acts. A new key needs a row here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from headrace.config.algorithm import AdvantageSection
from headrace.config.keys import all_keys
from headrace.config.losses import LossSection

ELSEWHERE = "elsewhere"
"""A model folder beside the policy's."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """``see`` names an observable of ``test_knobs_act``; ``to`` are other values; ``given`` (path -> value) is what has
    to hold for the key to matter on the little data of the test, such as a search that goes on long enough."""

    see: str
    to: tuple[Any, ...]
    given: dict[str, Any] = field(default_factory=dict)


def step(*to: Any, **given: Any) -> Knob:
    """Seen in the gradients of policy or critic over two steps, everything between verdicts and them included."""
    return Knob(see="gradients", to=to, given={path.replace("__", "."): value for path, value in given.items()})


OFF = {"algorithm.anchor": "behaviour"}
LOSS, ADVANTAGE = "algorithm.loss", "algorithm.advantage"
FAR = {f"{LOSS}.target_share": 0.97}
NEAR = {f"{LOSS}.target_share": 0.05}
MIDDLE = {f"{LOSS}.target_share": 0.35}
OFFSETS = {"clip_low": (1e-6, 0.5), "clip_high": (1e-6, 0.5)}


def _loss(name: str, keys: dict[str, tuple[Any, ...]], **given: dict[str, Any]) -> dict[str, Knob]:
    return {
        f"{LOSS}[{name}].{key}": Knob(see="gradients", to=to, given={**OFF, **given.get(key, {})})
        for key, to in keys.items()
    }


def _advantage(name: str, **keys: tuple[Any, ...]) -> dict[str, Knob]:
    return {f"{ADVANTAGE}[{name}].{key}": Knob(see="gradients", to=to) for key, to in keys.items()}


def _part(path: str, see: str = "gradients", **keys: Any) -> dict[str, Knob]:
    rows = {}
    for key, row in keys.items():
        to, given = row if isinstance(row[-1], dict) else (row, {})
        rows[f"{path}.{key}"] = Knob(see=see, to=to, given=given)
    return rows


def _with(*to: Any, **given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return to, {f"algorithm.{path.replace('__', '.')}": value for path, value in given.items()}


TABLE: dict[str, Knob] = {
    f"{LOSS}.name": step("ppo_clip", "cispo"),
    f"{ADVANTAGE}.name": step("group_relative", "gae", "reinforce_pp", "smoothed"),
    "algorithm.loss_weight": step("token_mean", "sample_mean", "constant"),
    "algorithm.anchor": step("behaviour", "proximal"),
    "algorithm.zero_variance": step("keep", "shrink", "refill"),
    "algorithm.zero_variance_tolerance": step(2.0),
    "algorithm.truncated": step("train", "mask"),
    **_loss("ppo_clip", OFFSETS | {"dual_clip": (1.3, 3.0)}),
    **_loss("cispo", {"ratio_max": (1.01,), "ratio_min": (0.99,)}),
    **_loss("gspo", OFFSETS | {"token_form": (True, False)}, token_form={"algorithm.anchor": "proximal"}),
    **_loss(
        "bapo",
        {
            "target_share": (0.05, 0.97),
            "low_start": (0.2,),
            "low_end": (0.65, 1.0),
            "low_step": (0.17,),
            "high_start": (2.9,),
            "high_end": (1.25, 9.0),
            "high_step": (1.0,),
            "order": ("low_first", "high_first"),
            "metric": ("ratio", "share"),
            "contribution": ("active", "surrogate"),
            "end": ("clamp", "stop"),
            "dual_clip": (1.01,),
        },
        low_start=NEAR,
        high_start=NEAR,
        low_end=FAR,
        low_step=FAR,
        high_end=FAR,
        high_step=FAR,
        order=MIDDLE,
        metric=MIDDLE,
        contribution=MIDDLE,
        end=FAR | {f"{LOSS}.low_step": 0.17, f"{LOSS}.high_step": 0.7},
    ),
    **_loss(
        "bapo_balanced",
        {
            "ratio_min": (0.1, 0.99),
            "ratio_max": (1.01, 9.0),
            "target": (0.9,),
            "beta": (0.5,),
            "mode": ("printed", "exact", "restore"),
        },
    ),
    **_loss("gmpo", OFFSETS),
    **_loss("sapo", {"tau_pos": (5.0,), "tau_neg": (5.0,)}),
    **_loss(
        "clip_cov",
        OFFSETS | {"frac": (0.5,), "cov_low": (-9.0,), "cov_high": (0.1,)},
        frac={f"{LOSS}.cov_low": 0.01},
        cov_low={f"{LOSS}.frac": 0.9},
        cov_high={f"{LOSS}.frac": 0.9, f"{LOSS}.cov_low": 0.01},
    ),
    **_loss("kl_cov", {"frac": (0.5,), "coef": (0.1,)}),
    **_advantage(
        "group_relative",
        mean=("group", "leave_one_out", "batch", "none"),
        scale=("group", "none", "batch", "raw_batch"),
        ddof=(0, 1),
        eps=(0.5,),
    ),
    **_advantage(
        "gae",
        gamma=(0.5,),
        lambda_policy=(0.5,),
        lambda_value=(0.5,),
        length_alpha=(0.3,),
        whiten=(False, True),
        bootstrap_truncated=(True, False),
    ),
    # By definition the result is the same; the pieces it is worked out in are not.
    f"{ADVANTAGE}[gae].segment_tokens": Knob(see="pieces", to=(2, 3)),
    **_advantage("smoothed", gamma=(0.5,), smoothing=(0.5,), lambda_value=(0.5,), direction=("forward", "backward")),
    **_advantage("reinforce_pp", gamma=(0.5,), baseline=("group", "none")),
    **_part(
        "algorithm.correction",
        mode=_with("mask", "truncate", anchor="proximal"),
        level=_with("sequence", "geometric", "token", anchor="proximal"),
        low=_with(0.9, anchor="proximal", correction__mode="mask"),
        high=_with(0.5, anchor="proximal"),
    ),
    **_part("algorithm.off_policy_mask", delta=(5.0,)),
    **_part(
        "algorithm.adaptive_clip",
        target_entropy=(4.0,),
        alpha=(0.9, 0.01),
        sign=("formula", "prose"),
        side=("both", "high"),
    ),
    **_part(
        "algorithm.clip_schedule",
        factor=(0.01,),
        shape=("linear", "final"),
        final_frac=_with(0.9, clip_schedule__shape="final"),
    ),
    **_part(
        "algorithm.kl",
        coef=(1.0,),
        estimator=("k1", "k2", "k3"),
        into=("loss", "reward"),
        importance=(False, True),
        reference=(ELSEWHERE,),
    ),
    **_part(
        "algorithm.entropy",
        coef=(1.0,),
        target=(9.0,),
        delta=_with(0.05, entropy__target=9.0),
        coef_max=_with(0.02, entropy__target=9.0, entropy__delta=0.5),
    ),
    **_part("algorithm.overlong", buffer_tokens=(9,), factor=(0.3,), only_right=(True, False)),
    **_part(
        "algorithm.value",
        lr=(0.1,),
        warmup=(10,),
        every=(2, 1),
        pretrain_steps=(4,),
        clip=_with(0.001, None, value__lr=1.0),
        max_grad_norm=(1e-3,),
    ),
    **_part(
        "algorithm.pass_rate",
        "prompts",
        threshold=(0.5,),
        window=_with(8, pass_rate__min_count=8),
        min_count=(4,),
        patience=(3,),
        effective=("now", "next_epoch"),
        reserve_frac=(0.3, 0.0),
        pass_threshold=(0.2,),
    ),
    **_part(
        "algorithm.interruption",
        "rollouts",
        low=(1,),
        high=(6,),
        text=("dcba",),
        closing=("c",),
        answer_tokens=(1,),
    ),
    **_part("async.schedule", "bounds", end=(1,), shape=("linear", "final"), final_frac=(0.9,)),
    **_part(
        "sampling.schedule",
        "temperatures",
        end=(0.1,),
        shape=("linear", "final"),
        final_frac=((0.9,), {"sampling.schedule.shape": "final"}),
    ),
    "async.max_uses": Knob(see="uses", to=(2,)),
}

REQUIRED: dict[str, dict[str, Any]] = {
    "algorithm.interruption": {"low": 3, "high": 5, "text": "abc", "closing": "k", "answer_tokens": 2},
    "algorithm.adaptive_clip": {"target_entropy": 1.0},
    "algorithm.overlong": {"buffer_tokens": 4},
    "algorithm.correction": {"high": 1.1},
    "async.schedule": {"end": 2},
    "sampling.schedule": {"end": 0.5, "shape": "linear"},
}
"""What a part is switched on with where its defaults do not do."""


def kinds_of(path: str) -> dict[str, Any]:
    """The sections by name of ``algorithm.loss`` or ``algorithm.advantage``."""
    union = {LOSS: LossSection, ADVANTAGE: AdvantageSection}[path]
    return {get_args(s.model_fields["name"].annotation)[0]: s for s in get_args(get_args(union)[0])}


def documented() -> set[str]:
    """Ids of all keys of algorithms, schedules and reuse, as ``TABLE`` names them."""
    found = {"async.max_uses"}
    for path in all_keys():
        section, _, key = path.rpartition(".")
        if section in (LOSS, ADVANTAGE) and key != "name":
            found |= {
                f"{section}[{name}].{key}" for name, kind in kinds_of(section).items() if key in kind.model_fields
            }
        elif path.startswith("algorithm.") or section.endswith(".schedule"):
            found.add(path)
    return found


def split_id(name: str) -> tuple[str, str | None, str]:
    """(section, kind or None, key) of an id."""
    section, _, key = name.rpartition(".")
    section, _, kind = section.partition("[")
    return section, kind.rstrip("]") or None, key
