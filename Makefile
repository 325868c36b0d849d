# Everything that a person types here. Each target does its own set-up: a virtual environment in
# .venv with pinned packages, installed once and again only when the pins change.

ARGS ?=
BENCH ?= $(sort $(wildcard bench/*.py))
TESTS ?=
WORKERS ?= 4
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet
PACKAGES := controlplane agents/wire/middlewatch_wire agents/node/middlewatch_agent

# Byte code is kept even where the environment asks for none: else every worker of a test run, and every
# program that is started, compiles everything anew.
export PYTHONDONTWRITEBYTECODE :=

# A stamp's name holds the digest of its pins and of this folder's path (a moved clone is set up anew).
digest = $(shell { pwd; cat requirements/lock/*.txt agents/*/pyproject.toml; } | cksum | tr ' ' -)
STAMP := .venv/installed-$(digest)

.DEFAULT_GOAL := help
.PHONY: help demo serve test soak bench lint types lock clean chromium slurm

help: ## tell what can be typed
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile
	@echo '  Arguments go through ARGS: make demo ARGS="--exit --report report.json"'

demo: $(STAMP).torch ## hurt a real training run on several nodes and watch it recover by itself
	@$(PY) manage.py demo $(ARGS)

serve: $(STAMP).run ## run the control plane alone; its data are in MIDDLEWATCH_HOME, or ./var
	@$(PY) manage.py serve $(ARGS)

test: ## prove that everything works (all tests, on real servers)
	@$(MAKE) --no-print-directory -j 2 $(STAMP).dev slurm
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --reruns 1 --reruns-delay 2 -rR $(TESTS) $(ARGS)

soak: $(STAMP).dev ## kill whatever may die at random during fifty recoveries (twenty minutes)
	@MIDDLEWATCH_SOAK=$${MIDDLEWATCH_SOAK:-50} $(PY) -m pytest -q -p no:randomly tests/trouble/test_random_kills.py $(ARGS)

bench: $(STAMP).dev ## measure every figure that the README states
	@for file in $(BENCH); do echo "== $$file"; $(PY) $$file || exit 1; done

lint: $(STAMP).dev ## check style and who imports whom
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet .
	@.venv/bin/lint-imports

types: $(STAMP).dev ## check the types
	@$(PY) -m mypy $(PACKAGES)

lock: $(STAMP).dev ## write requirements/lock from what is installed in .venv
	@$(PY) requirements/relock.py

clean: ## remove the environment and caches; data in ./var stay
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis staticfiles
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ------------------------------------------------------------------------------------

$(STAMP).run:
	@sh requirements/venv.sh
	@rm -f .venv/installed-*
	@echo "Installing packages into .venv (once)…"
	@$(PIP) -r requirements/lock/control.txt -r requirements/lock/embedded.txt -r requirements/lock/build.txt
	@$(PIP) --no-build-isolation --no-deps -e agents/wire -e agents/node
	@touch $@

$(STAMP).torch: $(STAMP).run
	@echo "Installing torch into .venv (once; it is large)…"
	@$(PIP) -r requirements/lock/torch.txt
	@touch $@

$(STAMP).dev: $(STAMP).torch
	@echo "Installing test tools into .venv (once)…"
	@$(PIP) -r requirements/lock/dev.txt
	@touch $@

chromium:
	@sh requirements/chromium.sh

slurm: chromium # one after the other: Debian's package manager lets one in at a time
	@sh requirements/slurm.sh
