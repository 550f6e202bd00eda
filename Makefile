# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make results   set up .venv, then run the embedded experiment to tables, figures and MLflow runs
#   make test      run the tests
PYTHON ?= python3
CORES ?= 2
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: results report test slow lint format reference docs lock clean

results: .venv/ready
	snakemake --cores $(CORES)

# One page of a finished study, with every table and figure; it opens offline.
report: .venv/ready
	snakemake --report results/report.html

test: .venv/ready
	python -m pytest -n 2

# Ten minutes: hundreds of kills, thousands of damaged files and configurations.
slow: .venv/ready
	python -m pytest -n 2 -m slow

lint: .venv/ready
	ruff format --check .
	ruff check .
	mypy
	snakefmt --check Snakefile workflow
	snakemake --lint

format: .venv/ready
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow

# Everything comes from requirements.lock, with hashes; uv installs it several times faster than
# pip, and pip does it where uv cannot.
.venv/ready: requirements.lock requirements-uv.lock pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements-uv.lock \
	  && $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock \
	  || $(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# The pages that follow from the code and from the published studies.
reference: .venv/ready
	python -m docs.generated

# The site, in build/docs; a page or a docstring that does not render right is an error.
docs: .venv/ready
	sphinx-build -W --keep-going -n -b html docs build/docs

# Needs network: writes the newest versions that fit pyproject.toml.
lock: COMPILE := uv pip compile --universal --python-version 3.11 --upgrade --generate-hashes \
  --no-header --no-emit-index-url --no-emit-find-links
lock: .venv/ready
	$(COMPILE) pyproject.toml --extra workflow --extra federated --extra docs --extra dev \
	  --output-file requirements.lock
	echo 'snakemake-executor-plugin-slurm>=2.8,<3' | $(COMPILE) --constraint requirements.lock - \
	  --output-file requirements-slurm.lock
	$(COMPILE) pyproject.toml --extra flower --output-file requirements-flower.lock
	echo uv | $(COMPILE) - --output-file requirements-uv.lock

clean:
	rm -rf .venv .snakemake build dist *.egg-info
