# whet: `make demo` and `make test` do all the set-up on a fresh machine.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native -type f 2>/dev/null)
TEST_WORKERS ?= 4
TRIALS ?= 200

ARCH ?= $(shell uname -m)
# Where everything must hold, a warning of the compiler is an error.
WARNINGS := $(if $(filter true,$(CI)),--config-settings=cmake.define.WHET_WERROR=ON)

.PHONY: help setup system driver demo test soak lib wheel test-wheel bench bench-peers lint format clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.native $(VENV)/.tools ## .venv with the package in it, editable; run again after a C++ change

$(VENV)/.deps: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
	touch $@

$(VENV)/.native: $(VENV)/.deps $(NATIVE)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation $(WARNINGS) -e '.[gpu,decode,lab]'
	touch $@

# What only tests and lint use. By name: as extras of the package they would build it once more.
NAMES := import tomllib; of = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
$(VENV)/.tools: $(VENV)/.deps
	$(BIN)/python -c '$(NAMES); print(*of["test"], *of["lint"], *of["cluster"])' | xargs $(BIN)/pip install --quiet --disable-pip-version-check
	touch $@

system: ## compilers, driver and browser that the tests use, where they may be installed
	@tools/install-system

driver: setup ## a software Vulkan driver that computes right, in the user's cache folder
	@$(BIN)/python -m whet.gpu || { [ "$$CI" != true ]; }

demo: $(VENV)/.native ## gate, time and judge the MSM variants on this machine's devices; leaves report.html
	@gpu=; if $(BIN)/python -m whet.gpu; then gpu="walker coop"; fi; \
	$(BIN)/whet ab msm plain pippenger affine $$gpu --n 2^10 --quick --seconds 45 --report report.html

test: system setup driver lint ## everything that must hold
	$(BIN)/pytest -n $(TEST_WORKERS) --durations=30

$(VENV)/.wheel: $(VENV)/.deps
	$(BIN)/python -c '$(NAMES); print(*of["wheel"])' | xargs $(BIN)/pip install --quiet --disable-pip-version-check
	touch $@

wheel: $(VENV)/.wheel ## dist/whet-….whl for any Linux with glibc 2.28 or later; ARCH=aarch64 for the other processor
	$(BIN)/python tools/build_wheel $(ARCH)

test-wheel: setup wheel ## the wheel in an empty environment without a compiler; wheels for arm64 under an emulator
	@tools/arm64_python || echo "left out: arm64 under an emulator"
	WHET_WHEELS=dist $(BIN)/pytest -s tests/project/installed_wheel.py

lib: $(VENV)/.deps ## libwhet_msm, the sum as a shared library, and its C header, in build/lib
	$(BIN)/cmake -S native -B build/native-c -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DWHET_PYTHON=OFF
	$(BIN)/cmake --build build/native-c --target whet_msm_c
	mkdir -p build/lib/include
	cp -P build/native-c/lib/libwhet_msm.so* build/lib/
	cp native/c/whet_msm.h build/lib/include/

bench: setup ## growth and ratio tables of every engine
	$(BIN)/whet graph bench --rounds 3
	$(BIN)/whet sweep msm affine --axis n=2^10,2^12,2^14,2^16,2^18 --quick
	@for b in benchmarks/bench_*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

soak: setup ## hours of self-comparisons and honest turns on this machine; figures for docs/evidence.md
	$(BIN)/python benchmarks/soak --trials $(TRIALS) --power $(TRIALS)
	$(BIN)/python benchmarks/soak --trials $(TRIALS) --busy
	$(BIN)/python benchmarks/soak_honest.py
	$(BIN)/python benchmarks/soak_honest.py --neighbours 2
	$(BIN)/python benchmarks/soak_revisions.py --trials 20
	WHET_ALL_EXPLOITS=1 WHET_SAME_COMMITS=2 $(BIN)/pytest tests/evidence/test_gate_exploits.py tests/evidence/test_revisions.py
	WHET_ALL_WEB_CASES=1 $(BIN)/pytest tests/web/test_web_soak.py
	WHET_LOAD_SECONDS=60 WHET_JUNK_REQUESTS=10000 WHET_ALL_LAB=1 $(BIN)/pytest tests/lab
	WHET_RAY_STARTS=50 WHET_RAY_KILLS=20 $(BIN)/pytest tests/cluster/test_cluster_leftovers.py tests/cluster/test_cluster_faults.py
	WHET_ALL_BUILDS=1 $(BIN)/pytest tests/project/test_native_builds.py tests/graph/test_graph_core.py tests/msm/test_emulated_vectors.py
	$(MAKE) test-wheel

bench-peers: ## install and build the task runtimes that `whet graph bench` is compared with
	@benchmarks/graph_peers/build

lint: setup ## ruff, mypy, clang-format, kernels by two WGSL compilers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/field_wgsl --check
	$(BIN)/python tools/write_web_golden.py --check
	$(BIN)/python tools/check_wgsl
	git ls-files 'native/*.cpp' 'native/*.hpp' 'native/*.h' 'examples/*.c' 'examples/*.cpp' | xargs -r $(BIN)/clang-format --dry-run -Werror

format: setup ## rewrite sources in the house format
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
	git ls-files 'native/*.cpp' 'native/*.hpp' 'native/*.h' 'examples/*.c' 'examples/*.cpp' | xargs -r $(BIN)/clang-format -i

clean: ## remove what the targets above made
	rm -rf $(VENV) build dist .cache report.html web/node_modules web/src/generated web/types
