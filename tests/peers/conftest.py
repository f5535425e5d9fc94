"""Keeps these tests out of a plain ``pytest``: they run where the peers are installed (``make test-peers``)."""

from __future__ import annotations

import os
from importlib.util import find_spec

PEERS = ("trl", "verl", "polgrad")

# Where one of the three is there, all have to be: a half-built environment fails instead of passing with nothing run.
collect_ignore_glob = [] if any(find_spec(name) for name in PEERS) else ["test_*.py"]

# TRL's GMPO lives among its experimental trainers, which warn on import; the version is pinned.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
