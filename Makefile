# Needs nothing but python3 and make; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The stamp is rebuilt when what is installed would change.
STAMP := $(VENV)/.installed

.PHONY: demo test check format bench-speed results clean

demo: $(STAMP)
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

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group dev --editable .
	touch $@

clean:
	rm -rf $(VENV) demo-output
