"""Runs a supervisor as a program, for the tests that kill or interrupt it: prints what happens, one JSON a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.supervisor import Supervisor


def show(name, event):
    print(json.dumps([name, event]), flush=True)


def main(folder, mode, grace_s):
    workers = ["worker-0", "worker-1"]
    args = {"workers": workers, "rounds": 100_000, "mode": mode}
    specs = [RoleSpec(role="controller", name="controller", factory="toy_roles:Controller", args=args)]
    specs += [RoleSpec(role="worker", name=name, factory="toy_roles:Worker") for name in workers]
    supervisor = Supervisor(folder, specs, grace_s=float(grace_s), import_path=[str(Path(__file__).parent)])
    show("run", {"id": supervisor.run_id})
    try:
        outcome = supervisor.run(show)
    except HeadraceError as error:
        show("error", {"message": str(error)})
        return error.exit_code
    show("outcome", {"status": outcome.status, "num_orphans": outcome.num_orphans, "unfinished": outcome.unfinished})
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
