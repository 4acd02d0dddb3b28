# Two commands do all set-up: `make demo` and `make test`. The rest is for people who change the code.
PYTHON ?= python3
BIN := .venv/bin
COMMA := ,
# Stamps: everything, for people who change the code; and what the demo needs.
READY := .venv/.ready
DEMO_READY := .venv/.demo-ready
# Shapes are checked while tests run; tests/shapes.py leaves out modules with compiled functions by itself.
PYTEST := $(BIN)/python -m pytest --jaxtyping-packages=forecaster,beartype.beartype

# make bench BENCH=--quick takes a minute each, BENCH=--json prints for programs
BENCHMARKS := command panel store windows city locations ingest graph truth travel kernels model training ensemble horizon_cost gpu var boosting arrow databases tables
# halves needs the real data: FORECASTER_DATA=… python -m benchmarks.halves

.PHONY: install format lint types layers docs test test-external check demo bench torture torture-gpu dist lock sbom clean

install: $(READY)

# A stamp is written only after pip has finished. An install that was interrupted has left
# .venv/.installing behind (or no working Python), and is begun again from an empty folder.
define install
@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else \
  "forecaster needs Python 3.11 or newer, found %d.%d; name another: make PYTHON=python3.12 …" % v)'
@if [ -e .venv/.installing ] || ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
  rm -rf .venv && $(PYTHON) -m venv .venv; fi
@touch .venv/.installing
$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(1)]"
@rm .venv/.installing
endef

$(READY): pyproject.toml constraints.txt
	$(call install,dev)
	@touch $(READY) $(DEMO_READY)

$(DEMO_READY): pyproject.toml constraints.txt
	$(call install,ingest$(COMMA)report)
	@touch $(DEMO_READY)

format: $(READY)
	$(BIN)/ruff format src tests benchmarks docs
	$(BIN)/ruff check --fix --quiet src tests benchmarks docs || true

# Ruff does not see allow_pickle=True, so a text search does.
lint: $(READY)
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/ruff check src tests benchmarks docs
	@if grep -rnE 'allow_pickle *= *True' src tests benchmarks; then \
	  echo 'allow_pickle=True runs code on load; use safetensors or Parquet'; exit 1; fi

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports --no-cache

# Two processes, each a file of tests at a time.
EXTERNAL := servers or browser or spark or ray
test: $(READY)
	$(PYTEST) -m "not gpu and not ($(EXTERNAL))" -n 2 --dist loadfile

# What needs a database, Prometheus, a browser, Java or Ray; a test whose program is missing is skipped.
test-external: $(READY)
	$(PYTEST) -m "$(EXTERNAL)" -n 2 --dist loadfile

check: lint types layers docs test

# The documentation site, in build/site; a broken link or a missing name fails it.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

demo: $(DEMO_READY)
	$(BIN)/forecaster demo --out demo

bench: $(READY)
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name $(BENCH) || exit 1; done

torture: $(READY)
	$(PYTEST) -m "not gpu" --torture

torture-gpu: $(READY)
	$(PYTEST) -m gpu --torture

# The wheel must install and answer in an environment that has nothing else.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	rm -rf build/empty && $(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/empty/bin/forecaster --version

# What the service needs, each file with its hash; torch is left out, see docs/guides/operations.md.
LOCK := deploy/requirements.lock
lock: $(READY)
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes --strip-extras \
	  --extra serve --extra telemetry --constraint constraints.txt --unsafe-package torch \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate \
	  --output-file $(LOCK) pyproject.toml
	sed -i '/^# WARNING/,$$d' $(LOCK)

# A bill of materials (CycloneDX) of an environment that holds what the service needs, and no more.
SBOM_ENVIRONMENT := build/locked
sbom: $(READY)
	rm -rf $(SBOM_ENVIRONMENT) && $(PYTHON) -m venv $(SBOM_ENVIRONMENT)
	$(SBOM_ENVIRONMENT)/bin/python -m pip install --quiet --require-hashes -r $(LOCK)
	$(SBOM_ENVIRONMENT)/bin/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	$(SBOM_ENVIRONMENT)/bin/python -m pip install --quiet --no-deps .
	$(SBOM_ENVIRONMENT)/bin/python -m pip check
	$(SBOM_ENVIRONMENT)/bin/python -m pip uninstall --quiet --yes pip
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file build/sbom.json $(SBOM_ENVIRONMENT)

clean:
	rm -rf .venv build dist demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
