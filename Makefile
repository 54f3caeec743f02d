# Rollcall: see README.md for what it is, CONTRIBUTING.md for how to work on it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

include make/cluster.mk

GOLANGCI_LINT_VERSION := v2.15.0

##@ Try it

.PHONY: demo
demo: ## Start a cluster (or use KUBECONFIG), install Rollcall, run examples/pytorch
	cd test && go run ./cmd/demo

.PHONY: demo-down
demo-down: ## Stop the demo's cluster
	cd test && go run ./cluster/cmd/cluster --name demo down

##@ Test it

.PHONY: test
test: ## Unit, golden, property and integration tests; the last against a real API server. Needs no root
	go test ./...
	cd test && go run ./cluster/cmd/cluster build
	cd test && go run ./cluster/cmd/cluster build --nodes none --kubernetes floor
	cd test && go test -timeout 60m ./cluster/... ./seeds/... ./integration/...

.PHONY: e2e
e2e: ## Run gangs on a real node: containerd, kubelet, DNS, Helm. Needs root
	cd test && ROLLCALL_TEST_REAL=1 go test -count=1 -timeout 60m -v -p 1 -run Real ./cluster/...
	cd test && go test -count=1 -timeout 30m -v ./e2e/...

.PHONY: e2e-all
e2e-all: export ROLLCALL_E2E := all
e2e-all: e2e ## The same with every framework and implementation; the first run makes their images (about 30 minutes)

.PHONY: floor
floor: export ROLLCALL_TEST_KUBERNETES := floor
floor: ## The integration tests, and gangs on a real node, with the oldest supported Kubernetes. Needs root (about 15 minutes)
	cd test && go test -count=1 -timeout 30m ./integration/...
	cd test && go test -count=1 -timeout 30m -v ./e2e/...

.PHONY: fuzz
fuzz: ## Fuzz what reads input from outside, for a few minutes
	go test ./injectors -run '^$$' -fuzz FuzzInject -fuzztime 60s
	go test ./certs -run '^$$' -fuzz FuzzMerge -fuzztime 30s -fuzzminimizetime 10x
	go test ./manifest -run '^$$' -fuzz FuzzReadAll -fuzztime 30s -fuzzminimizetime 10x
	go test ./vet -run '^$$' -fuzz FuzzRun -fuzztime 30s -fuzzminimizetime 10x

.PHONY: bench
bench: ## Benchmark the engine on one core
	go test ./injectors -run '^$$' -bench . -cpu 1

.PHONY: bench-cluster
bench-cluster: ## Measure gangs beside plain Jobs on simulated nodes: time until Running, API writes
	cd test && go test -count=1 -timeout 60m -v ./bench/...

##@ Keep it in order

.PHONY: bench-thousand
bench-thousand: ## Measure the manager with 1,000 gangs of 100 simulated pods (about an hour, 15 GiB of memory)
	cd test && ROLLCALL_BENCH_THOUSAND=true go test -count=1 -timeout 120m -v -run TestThousand ./bench/...

.PHONY: lint
lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) ## Lint all modules
	$(CURDIR)/$< run ./...
	cd test && $(CURDIR)/$< run --config $(CURDIR)/.golangci.yml ./...

bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION) (about 3 minutes, once)"
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv bin/golangci-lint $@

.PHONY: golden
golden: ## Rewrite the golden files and generated pages; read the difference before you commit
	go test ./injectors ./docs/... -update

# Each is a module of its own, with the operator's versions of everything.
OPERATORS := training-operator mpi-operator trainer

.PHONY: operators
operators: ## Record anew what Kubeflow's operators and JobSet make of jobs; the first run compiles them (about 10 minutes)
	for o in $(OPERATORS); do (cd test/operators/$$o && go run .); done

.PHONY: operators-check
operators-check: ## Fail if a recording of an operator is stale
	cd test/operators/recording && go test ./...
	for o in $(OPERATORS); do (cd test/operators/$$o && go run . -check); done

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
