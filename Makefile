# Needs nothing but python3 and make; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The stamps are rebuilt when what is installed would change.
USER_STAMP := $(VENV)/.installed-user
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check format bench-speed results clean

demo: $(USER_STAMP)
	$(BIN)/appl demo

# One thread for each of the two workers and for the commands they start: with more, the threads of
# one wait for those of the other, and a command takes twice as long.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-speed: $(STAMP)
	$(BIN)/python benchmarks/adapt_speed.py

results: $(STAMP)
	$(BIN)/python benchmarks/results_page.py

# What a user needs, and what a developer needs beside it.
$(USER_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	$(PIP) -c constraints.txt --editable .
	touch $@

$(STAMP): $(USER_STAMP)
	$(PIP) -c constraints.txt --group dev --editable .
	touch $@

clean:
	rm -rf $(VENV) demo-output
