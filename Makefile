# Tasks of development; `make help` lists them. Each runs in the active environment, see CONTRIBUTING.md.
.DEFAULT_GOAL := help
.PHONY: help install lint format types test docs docs-quick notebooks wheel check nightly

help: ## list the tasks
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

install: ## install bandgap with what tests and documentation need
	pip install -c constraints.txt -e ".[test,docs]"

lint: ## check style and names
	ruff check .
	ruff format --check .

format: ## format the code
	ruff format .

types: ## check types
	mypy --strict bandgap/ app/

test: ## run the unit, page and browser tests
	pytest

docs: ## build the documentation and execute the tutorials
	sphinx-build -W --keep-going -q docs docs/_build/html

docs-quick: ## build the documentation without executing the tutorials
	BANDGAP_DOCS_EXECUTION=off sphinx-build -W --keep-going -q docs docs/_build/html

notebooks: ## write the tutorials as notebooks for Colab and Binder; needs jupytext
	mkdir -p docs/_build/notebooks
	echo bandgap > docs/_build/notebooks/requirements.txt
	for page in $$(grep -l mystnb docs/tutorials/*.md); do \
		sed '0,/^# .*/s//&\n\n```{code-cell} ipython3\n%pip install -q bandgap\n```/' $$page \
		| jupytext --from md:myst --to ipynb -o docs/_build/notebooks/$$(basename $$page .md).ipynb; \
	done

wheel: ## build wheel and source archive
	python -m build

check: ## run what must pass before a change
	.ci/run

nightly: ## run the tests that take hours
	.ci/nightly
