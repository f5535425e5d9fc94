"""Weights & Biases. Works without a network or an account: the run is then kept in files that can be synced later."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.tracking.aliases import add_aliases

logger = logging.getLogger("headrace.tracking")

INIT_TIMEOUT_S = 30  # a server that does not answer must not hold up the run for longer


class WandbTracker:
    """A ``Tracker`` for one W&B run.

    The environment variable ``WANDB_MODE`` decides between online, offline and disabled. Without it the run is online
    if the machine is logged in to W&B and the server answers, offline otherwise (``wandb sync FOLDER`` uploads it).
    ``run_id`` stays the same over resumes, so that W&B continues the run. Files go to ``folder/wandb``.
    """

    name = "wandb"

    def __init__(
        self,
        folder: str | Path,
        *,
        run_id: str,
        project: str = "headrace",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError("tracking.also: 'wandb' is not installed; pip install 'headrace[wandb]'") from error
        arguments: dict[str, Any] = {"dir": str(folder), "project": project, "id": run_id, "name": run_id}
        arguments |= {"config": dict(config or {}), "resume": "allow"}
        self._run = _start(wandb, arguments)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the finite values of one step, under our names and the familiar ones of other libraries."""
        self._run.log({name: value for name, value in add_aliases(metrics).items() if math.isfinite(value)}, step=step)

    def close(self) -> None:
        self._run.finish()


def _start(wandb: Any, arguments: Mapping[str, Any]) -> Any:
    settings = wandb.Settings(init_timeout=INIT_TIMEOUT_S, silent=True, console="off")
    if _wanted_mode(wandb) == "online":
        try:
            return wandb.init(**arguments, mode="online", settings=settings)
        except Exception as error:
            logger.warning("wandb has no connection (%s); the run is kept offline", type(error).__name__)
            wandb.teardown()  # the failed start still holds the run id
    mode = os.environ.get("WANDB_MODE", "offline")
    return wandb.init(**arguments, mode="offline" if mode == "online" else mode, settings=settings)


def _wanted_mode(wandb: Any) -> str:
    """``WANDB_MODE``, or whether there is a login (never asks for one: a run has nobody to type)."""
    if mode := os.environ.get("WANDB_MODE"):
        return mode
    try:
        return "online" if wandb.login(prompt=False) else "offline"
    except Exception:
        return "offline"
