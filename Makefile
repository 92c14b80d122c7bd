PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
DOCS := .venv/docs

.PHONY: demo test nightly lowest fuzz check format bench docs gallery package

demo: $(INSTALLED)
	$(BIN)/lupi demo --overwrite

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q

# All tests; commands die at 20 points each. `make fuzz` is the rest of the night.
nightly: $(INSTALLED)
	OMP_NUM_THREADS=1 LUPI_CRASH_POINTS=20 $(BIN)/pytest -n 2 -q -m ""

# The tests with the lower bounds of pyproject.toml, but for `vision`. Old versions warn of each other, which is no failure.
lowest:
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/pip install --quiet uv
	build/lowest/bin/uv pip compile --quiet --resolution lowest-direct --python build/lowest/bin/python -o build/lowest.txt \
	    --extra cluster --extra distributed --extra excel --extra export --extra text pyproject.toml
	build/lowest/bin/uv pip install --quiet --python build/lowest/bin/python -r build/lowest.txt --group dev --editable .
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -n 2 -q -W default --disable-warnings

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

# The pages, without running the gallery.
docs: $(DOCS)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs site

# The pages and the output of every example: a few minutes.
gallery: $(DOCS)
	OMP_NUM_THREADS=1 LUPI_GALLERY=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --doctree-dir build/gallery docs site

# What would be published: built, checked, and installed into empty environments.
package: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --group release
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	for file in dist/*; do \
	    $(PYTHON) -m venv --clear build/smoke && build/smoke/bin/pip install --quiet --constraint constraints.txt "$$file" && \
	    (cd build/smoke && bin/lupi demo --epochs 1 --seeds 2 --annotations 1 --methods tram --jobs 1 -o demo) || exit 1; \
	done

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --constraint constraints.txt pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[cluster,distributed,export]" --group dev
	touch $@

$(DOCS): $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --group docs
	touch $@
