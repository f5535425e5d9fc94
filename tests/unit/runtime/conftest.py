from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.supervisor import Supervisor

HERE = Path(__file__).parent


@pytest.fixture
def supervise(tmp_path):
    """Builds a supervisor of toy roles: a controller and as many workers as there are modes."""

    def build(worker_modes=("double", "double"), *, controller="count", rounds=3, grace_s=20.0):
        workers = [f"worker-{n}" for n in range(len(worker_modes))]
        args = {"workers": workers, "rounds": rounds, "mode": controller}
        specs = [RoleSpec(role="controller", name="controller", factory="toy_roles:Controller", args=args)]
        for name, mode in zip(workers, worker_modes):
            specs.append(RoleSpec(role="worker", name=name, factory="toy_roles:Worker", args={"mode": mode}))
        return Supervisor(tmp_path, specs, grace_s=grace_s, import_path=[str(HERE)])

    return build


@pytest.fixture
def supervise_specs(tmp_path):
    """Builds a supervisor of the given specs."""

    def build(*specs, **options):
        return Supervisor(tmp_path, specs, import_path=[str(HERE)], **options)

    return build
