PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
DOCS := .venv/docs

.PHONY: demo test nightly fuzz check format bench docs

demo: $(INSTALLED)
	$(BIN)/lupi demo --overwrite

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q

# All tests; commands die at 20 points each. `make fuzz` is the rest of the night.
nightly: $(INSTALLED)
	OMP_NUM_THREADS=1 LUPI_CRASH_POINTS=20 $(BIN)/pytest -n 2 -q -m ""

# An hour or more on two cores; `python -m tests.faults.fuzz --case train:1234` runs one case again.
fuzz: $(INSTALLED)
	$(BIN)/python -m tests.faults.fuzz --cases 20000 --real 20 --scenarios 1

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# Material for MkDocs announces its end of life in May 2027 at every build; the variable turns that off.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --constraint constraints.txt pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[cluster,distributed,export]" --group dev
	touch $@

$(DOCS): $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --group docs
	touch $@
