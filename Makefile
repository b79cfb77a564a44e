# Every target does its own set-up on a fresh Debian or Ubuntu machine (root or sudo).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup setup-rehearsal check lint types unit rehearse test bench lock docs clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 26

setup: .venv/done ## a virtual environment with the library and the test tools

.venv/done: requirements-dev.lock pyproject.toml scripts/setup
	./scripts/setup

check: lint types unit ## style, types and unit tests, without a rehearsal node

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python -m hami_k3s.settings | diff -u docs/settings.md -

types: setup
	.venv/bin/mypy

unit: setup
	.venv/bin/pytest -q tests/unit

rehearse: setup ## watch the whole lab on a machine without a GPU (CARD=h200 CARDS=2 NODES=1)
	./scripts/as-root .venv/bin/python -m rehearsal run --install-packages \
	    $(if $(CARD),--card $(CARD)) $(if $(CARDS),--cards $(CARDS)) $(if $(NODES),--nodes $(NODES))

test: check ## everything: check, then rehearsal nodes; what cannot run is listed with its reason
	./scripts/as-root .venv/bin/python -m rehearsal prepare --install-packages
	./scripts/as-root .venv/bin/pytest -q tests/standin
	./scripts/as-root .venv/bin/pytest -q -n 4 --dist loadfile tests/rehearsal tests/gpu

bench: setup .venv-bench/done ## this project, a plain script and Ansible side by side (N=10, or N=1,10,30; KEEP=docs/performance.json)
	./scripts/as-root .venv/bin/python -m rehearsal prepare --install-packages
	./scripts/as-root .venv/bin/python -m bench.compare --nodes $(or $(N),1) $(if $(ONLY),--only $(ONLY)) $(if $(KEEP),--keep $(KEEP))

# Ansible's Python is not ours.
.venv-bench/done: .venv/done
	.venv/bin/python -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --group bench
	touch .venv-bench/done

lock: ## pin the exact versions that CI installs
	uv pip compile --quiet --universal --python-version 3.11 --group dev pyproject.toml --generate-hashes --no-header --no-annotate -o requirements-dev.lock

docs: setup ## generated pages
	.venv/bin/python -m hami_k3s.settings >docs/settings.md
	.venv/bin/python -m hami_k3s.preflight >docs/troubleshooting.md
	.venv/bin/python -m hami_k3s.isolation.page >docs/claims.md

clean:
	rm -rf .venv .venv-bench dist .mypy_cache .ruff_cache .pytest_cache
