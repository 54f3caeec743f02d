# The site of the documentation (site/README.md). The packages are installed once, and then nothing needs the network.
MERMAID_VERSION := 11.17.2
MERMAID_SHA256 := 6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd

MKDOCS = NO_MKDOCS_2_WARNING=1 bin/site/venv/bin/mkdocs
SITE = bin/site/venv/installed bin/site/mermaid.min.js

##@ Documentation

.PHONY: site
site: $(SITE) ## Build the site in dist/site/dev, or in the folder of a release: VERSION=v0.2.0 (needs Python 3.11 and npm)
	$(MKDOCS) build --strict --config-file site/mkdocs.yml --site-dir $(CURDIR)/dist/site/$(or $(VERSION),dev)
	@if grep -rlE '<(script|img|link)[^>]+(src|rel="?stylesheet"?[^>]+href)="?https?:' --include='*.html' dist/site/$(or $(VERSION),dev); then \
	  echo "These pages load from another server" >&2; exit 1; fi

.PHONY: docs
docs: $(SITE) ## Serve the site on http://127.0.0.1:8000, and build it again after a change
	$(MKDOCS) serve --config-file site/mkdocs.yml --dev-addr 127.0.0.1:8000 --watch README.md --watch CONTRIBUTING.md

bin/site/venv/installed: site/requirements.txt
	python3 -m venv bin/site/venv
	bin/site/venv/bin/pip install --quiet --require-hashes --requirement site/requirements.txt
	touch $@

bin/site/mermaid.min.js: make/site.mk
	mkdir -p bin/site
	cd bin/site && npm pack --silent mermaid@$(MERMAID_VERSION)
	echo "$(MERMAID_SHA256)  bin/site/mermaid-$(MERMAID_VERSION).tgz" | sha256sum --check --quiet
	tar -xzf bin/site/mermaid-$(MERMAID_VERSION).tgz -O package/dist/mermaid.min.js > $@
	rm bin/site/mermaid-$(MERMAID_VERSION).tgz
