# The Python package (python/README.md). Its tools and the client of Kubernetes are installed once.
PYTHON = bin/python/venv/bin

##@ Python

.PHONY: python
python: bin/python/venv/installed ## Lint, type-check, test and build the Python package in dist/python (needs Python 3.10)
	cd python && ../$(PYTHON)/ruff format --check --no-cache . && ../$(PYTHON)/ruff check --no-cache .
	cd python && ../$(PYTHON)/mypy --cache-dir=../bin/python/mypy
	cd python && ../$(PYTHON)/pytest --quiet
	cd python && ../$(PYTHON)/hatchling build --directory ../dist/python

bin/python/venv/installed: python/requirements-test.txt
	python3 -m venv bin/python/venv
	$(PYTHON)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@
