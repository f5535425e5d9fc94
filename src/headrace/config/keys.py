"""Every key a recipe may hold: its path, default, meaning and what is allowed there, read off the section models."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headrace.config.sections import Recipe

SHORTHANDS = {
    "model": "path",
    "task": "name",
    "reward": "verifier",
    "algorithm.loss": "name",
    "algorithm.advantage": "name",
}
"""Sections that may be written as one text: ``model: bundled`` means ``model: {path: bundled}``."""

OTHER_NAMES = {
    "learning_rate": "optimizer.lr",
    "warmup_steps": "optimizer.warmup",
    "warmup_ratio": "optimizer.warmup",
    "grad_clip": "optimizer.max_grad_norm",
    "clip_grad": "optimizer.max_grad_norm",
    "max_steps": "run.steps",
    "num_steps": "run.steps",
    "total_steps": "run.steps",
    "num_generations": "batch.group_size",
    "n": "batch.group_size",
    "rollouts_per_prompt": "batch.group_size",
    "batch_size": "batch.groups_per_step",
    "train_batch_size": "batch.groups_per_step",
    "ppo_epochs": "batch.num_epochs",
    "num_iterations": "batch.num_epochs",
    "mini_batch_size": "batch.num_minibatches",
    "max_new_tokens": "sampling.max_completion_tokens",
    "max_tokens": "sampling.max_completion_tokens",
    "max_completion_length": "sampling.max_completion_tokens",
    "max_response_length": "sampling.max_completion_tokens",
    "max_staleness": "async.max_lag",
    "max_async_level": "async.max_lag",
    "off_policy_steps": "async.max_lag",
    "staleness_threshold": "async.max_lag",
    "queue_size": "async.max_ready_batches",
    "epsilon": "algorithm.loss.clip_low",
    "eps_low": "algorithm.loss.clip_low",
    "epsilon_low": "algorithm.loss.clip_low",
    "clip_ratio_low": "algorithm.loss.clip_low",
    "eps_high": "algorithm.loss.clip_high",
    "epsilon_high": "algorithm.loss.clip_high",
    "clip_ratio_high": "algorithm.loss.clip_high",
    "eps_clip": "algorithm.loss.clip_high",
    "clip_ratio": "algorithm.loss.clip_high",
    "loss_type": "algorithm.loss_weight",
    "loss_agg_mode": "algorithm.loss_weight",
    "scale_rewards": "algorithm.advantage.scale",
    "dynamic_sampling": "algorithm.zero_variance",
    "dataset": "task.path",
    "train_files": "task.path",
    "val_files": "task.eval_path",
    "adv_estimator": "algorithm.advantage.name",
    "kl_coef": "algorithm.kl.coef",
    "kl_loss_coef": "algorithm.kl.coef",
    "init_kl_coef": "algorithm.kl.coef",
    "beta": "algorithm.kl.coef",
    "entropy_coeff": "algorithm.entropy.coef",
    "entropy_coef": "algorithm.entropy.coef",
    "lam": "algorithm.advantage.lambda_policy",
    "gae_lambda": "algorithm.advantage.lambda_policy",
    "clip_ratio_c": "algorithm.loss.dual_clip",
    "critic_warmup": "algorithm.value.pretrain_steps",
    "cliprange_value": "algorithm.value.clip",
    "mask_truncated_completions": "algorithm.truncated",
    "overlong_filtering": "algorithm.truncated",
    "overlong_buffer": "algorithm.overlong.buffer_tokens",
    "tis_imp_ratio_cap": "algorithm.correction.high",
    "vllm_importance_sampling_cap": "algorithm.correction.high",
    "rollout_is_threshold": "algorithm.correction.high",
    "reward_funcs": "reward.verifier",
    "model_name_or_path": "model.path",
    "torch_dtype": "model.dtype",
    "save_steps": "checkpoint.every_steps",
    "save_total_limit": "checkpoint.keep",
    "eval_steps": "eval.every_steps",
    "report_to": "tracking.also",
}
"""What other libraries call our keys; used in hints only."""

_TRUNCATED = (
    "Truncated sampling does not exist here: the trainer's ratios divide by the full distribution, and would be wrong."
)
REFUSED = {"top_p": _TRUNCATED, "top_k": _TRUNCATED, "min_p": _TRUNCATED}
"""Keys people look for that are left out on purpose, and why."""


@dataclass(frozen=True, slots=True)
class Key:
    """One documented key. ``owner`` is the part it comes with: ``"algorithm.loss 'bapo'"`` for a kind of part,
    ``"algorithm.kl"`` for a part that need not exist, '' for keys that every recipe has."""

    path: str
    default: Any
    description: str
    allowed: str
    owner: str = ""


@cache
def all_keys() -> dict[str, Key]:
    """Path -> key, in the order of the sections; a path that several kinds of a part share appears once."""
    found: dict[str, Key] = {}
    for key in _walk(Recipe, "", ""):
        twin = found.get(key.path)
        found[key.path] = key if twin is None else _joined(twin, key)
    return found


def _joined(one: Key, other: Key) -> Key:
    allowed = one.allowed if other.allowed in one.allowed else f"{one.allowed} or {other.allowed}"
    is_name = one.path.endswith(".name")
    return replace(one, allowed=allowed, owner="" if is_name else f"{one.owner} or {_kind_of(other)}")


def _kind_of(key: Key) -> str:
    return key.owner.partition(" ")[2] or key.owner


@cache
def section_paths() -> frozenset[str]:
    """Paths that hold further keys, such as ``batch`` and ``algorithm.loss``."""
    return frozenset(path.rpartition(".")[0] for path in all_keys()) | optional_sections() | {"algorithm"}


@cache
def optional_sections() -> frozenset[str]:
    """Paths of parts that may be null, such as ``algorithm.kl``; an empty mapping switches one on."""
    return frozenset(_optional(Recipe, ""))


@cache
def variants() -> dict[str, tuple[str, ...]]:
    """Sections of which there are several kinds, picked by their ``name``: path -> names."""
    return dict(_variants(Recipe, ""))


def hint(path: str) -> str:
    """``" Did you mean 'optimizer.lr'?"`` for a path that is no key, or ``""`` when nothing is close."""
    section, _, name = path.rpartition(".")
    if name in REFUSED:
        return f" {REFUSED[name]}"
    known = [*all_keys(), *sorted(section_paths())]
    found = _same_name(name, known) or OTHER_NAMES.get(name) or _close_in_section(section, name, known)
    found = found or _foreign(name) or _close(path, known) or _close_name(name, known)
    return f" Did you mean '{found}'?" if found else ""


def _same_name(name: str, known: list[str]) -> str:
    """The key of exactly this name in another section, rather one that every recipe has."""
    same = [path for path in known if path.rpartition(".")[2] == name]
    return min(same, key=lambda path: path in all_keys() and bool(all_keys()[path].owner), default="")


def _close_in_section(section: str, name: str, known: list[str]) -> str:
    siblings = {path.rpartition(".")[2]: path for path in known if path.rpartition(".")[0] == section}
    match = difflib.get_close_matches(name, list(siblings), n=1, cutoff=0.6)
    return siblings[match[0]] if match else ""


def _foreign(name: str) -> str:
    match = difflib.get_close_matches(name, list(OTHER_NAMES), n=1, cutoff=0.8)
    return OTHER_NAMES[match[0]] if match else ""


def _close(path: str, known: list[str]) -> str:
    match = difflib.get_close_matches(path, known, n=1, cutoff=0.75)
    return match[0] if match else ""


def _close_name(name: str, known: list[str]) -> str:
    names = {path.rpartition(".")[2]: path for path in known}
    match = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return names[match[0]] if match else ""


def _walk(model: type[BaseModel], prefix: str, owner: str) -> Iterator[Key]:
    for _, field, path in _fields(model, prefix):
        sections = _sections_of(field)
        for section in sections:
            kind = f"{path} '{_tag(section)}'" if len(sections) > 1 else path if _may_be_null(field) else owner
            yield from _walk(section, path + ".", kind)
        if not sections:
            yield Key(path, _default(field), field.description or "the kind", _allowed(field), owner)


def _optional(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for _, field, path in _fields(model, prefix):
        for section in _sections_of(field):
            if _may_be_null(field):
                yield path
            yield from _optional(section, path + ".")


def _variants(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for _, field, path in _fields(model, prefix):
        sections = _sections_of(field)
        if len(sections) > 1:
            yield path, tuple(_tag(section) for section in sections)
        for section in sections:
            yield from _variants(section, path + ".")


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo, str]]:
    return ((name, field, prefix + (field.alias or name)) for name, field in model.model_fields.items())


def _sections_of(field: FieldInfo) -> list[type[BaseModel]]:
    return [t for t in _members(field.annotation) if isinstance(t, type) and issubclass(t, BaseModel)]


def _may_be_null(field: FieldInfo) -> bool:
    return type(None) in _members(field.annotation)


def _tag(section: type[BaseModel]) -> str:
    return str(get_args(section.model_fields["name"].annotation)[0])


def _members(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _members(part)]
    return [annotation]


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _allowed(field: FieldInfo) -> str:
    if field.description and any(getattr(bound, "pattern", None) for bound in field.metadata):
        return field.description
    return describe(field.annotation, tuple(field.metadata))


def describe(annotation: Any, metadata: tuple[Any, ...] = ()) -> str:
    """What a type allows, in words: ``"a whole number >= 1"``, ``"one of 'wait', 'drop'"``."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(args[0], _flat(args[1:]) + metadata)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(part, metadata) for part in args)
    if origin is Literal:
        texts = ", ".join(repr(arg) for arg in args)
        return f"one of {texts}" if len(args) > 1 else texts
    if origin is tuple:
        if args[-1] is Ellipsis:
            return f"a list, each entry {describe(args[0])}"
        return f"a list of {len(args)}, each {describe(args[0])}"
    if origin is dict:
        return "a mapping of names to values"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    return names[annotation] + _bounds(metadata)


def _flat(metadata: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item]))


def _bounds(metadata: tuple[Any, ...]) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    found = [f"{sign} {getattr(b, name)}" for b in metadata for name, sign in signs.items() if hasattr(b, name)]
    return " " + " and ".join(found) if found else ""
