# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Where PyTorch comes from. `make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu` avoids the CUDA build.
TORCH_INDEX ?=
TORCH_FLAGS := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX),)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-learning test-nightly check bench install base-model venv-trl venv-peers test-peers clean

demo: install
	$(BIN)/headrace demo

test: install
	$(BIN)/python -m pytest

# Every recipe trains the bundled model upward: about a quarter of an hour.
test-learning: install
	$(BIN)/python -m pytest tests/learning

# 10,000 hostile samples through the verifier pool, instead of the 850 of `make test`: about three minutes.
test-nightly: install
	HEADRACE_NIGHTLY=1 $(BIN)/python -m pytest tests/unit/verifiers/test_pool_hostile.py

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/python benchmarks/run_all.py

base-model: install
	OMP_NUM_THREADS=1 $(BIN)/python scripts/make_base_model.py

# The other side of benchmarks/vs_trl.py, with the same torch and transformers.
venv-trl: .venv-trl/.installed

.venv-trl/.installed: constraints-trl.txt
	test -x .venv-trl/bin/python || $(PYTHON) -m venv .venv-trl
	.venv-trl/bin/pip install --quiet --disable-pip-version-check --constraint constraints-trl.txt $(TORCH_FLAGS) torch
	.venv-trl/bin/pip install --quiet --disable-pip-version-check --constraint constraints-trl.txt trl
	touch $@

# The kernels against TRL, verl and polgrad (tests/peers). verl's own requirements pin vLLM, Ray's GPU parts and an old
# transformers, so it goes in without them: verl.trainer.ppo imports on a CPU with these few.
venv-peers: .venv-peers/.installed

PEERS_PIP := .venv-peers/bin/pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt
.venv-peers/.installed: constraints-peers.txt pyproject.toml
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	$(PEERS_PIP) $(TORCH_FLAGS) torch
	$(PEERS_PIP) trl polgrad packaging tensordict hydra-core codetiming ray datasets pandas torchdata \
		numpy scipy pydantic pyyaml pyarrow pytest pytest-timeout
	$(PEERS_PIP) --no-deps verl
	$(PEERS_PIP) --no-deps --editable .
	touch $@

test-peers: venv-peers
	.venv-peers/bin/python -m pytest tests/peers

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(TORCH_FLAGS) torch
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
