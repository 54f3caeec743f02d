# README.md describes Rollcall. CONTRIBUTING.md describes the development workflow.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# All programs and tests have the same compiler flags, so that the go command compiles each package once. Without
# inlining and debugger information, and with fewer garbage collections, the compiler needs less time
# (test/cluster/go_build.go, docs/adr/0018). golangci-lint runs go vet.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) '-gcflags=all=-dwarf=false -l -d=gcstart=512' -vet=off

# Benchmarks measure optimized programs.
BENCHMARKS := bench bench-cluster bench-profile bench-peers bench-admission bench-scale bench-thousand
$(BENCHMARKS): export GOFLAGS := -vet=off
$(BENCHMARKS): export ROLLCALL_OPTIMIZED := true

include make/cluster.mk
include make/python.mk
include make/site.mk

GOLANGCI_LINT_VERSION := v2.15.0
VALE_VERSION := v3.22.0
ACTIONLINT_VERSION := v1.7.12

##@ Demo

.PHONY: demo
demo: ## Start a cluster (or use KUBECONFIG), install Rollcall and run examples/pytorch
	@echo "Building the demo (with an empty cache: a minute or more)"
	cd test && go run ./cmd/demo

.PHONY: demo-down
demo-down: ## Stop the cluster of the demo
	cd test && go run ./cluster/cmd/cluster --name demo down

##@ Tests

.PHONY: test
test: ## Run unit, golden, property and integration tests (needs no root)
	go test -timeout 30m ./...
	cd release && go test ./...
	cd examples/custom-framework && go test ./...
	cd test && go run ./cluster/cmd/cluster build
	# The integration tests mostly wait, so the other packages run beside them. make test-schedulers runs the skipped ones.
	cd test && go test -timeout 60m -skip '^($(SCHEDULERS))$$' ./integration/... ./simulation/... ./cluster/... ./chart/... ./monitoring/... ./seeds/... ./chaos/... ./soak/... ./builds/...

# Tests with other schedulers and clusters, which few changes affect. ROLLCALL_TEST_ORDERS is the number of random orders in
# which two gangs of two Jobs are created for Kueue.
SCHEDULERS := TestKAI|TestYuniKorn|TestMultiKueue
.PHONY: test-schedulers
test-schedulers: export ROLLCALL_TEST_ORDERS ?= 1000
test-schedulers: ## Run gangs with KAI, YuniKorn and MultiKueue, and in 1,000 random orders with Kueue (75 minutes)
	cd test && go test -count=1 -timeout 90m -v -run '^($(SCHEDULERS))$$' ./integration
	cd test && go test -count=1 -timeout 90m -v -run '^TestKueueGangs$$/^parallel$$/^RandomOrders$$' ./integration

# E2E_RUN and E2E_SKIP select tests by a regular expression.
.PHONY: e2e
e2e: ## Run end-to-end tests on a real node (needs root)
	$(if $(E2E_RUN),,cd test && ROLLCALL_TEST_REAL=1 go test -count=1 -timeout 60m -v -p 1 -run Real ./cluster/...)
	cd test && go test -count=1 -timeout 240m -v $(if $(E2E_RUN),-run '$(E2E_RUN)') $(if $(E2E_SKIP),-skip '$(E2E_SKIP)') ./e2e/...

# One test of each part that only a real node proves: Helm, the kubelet, DNS, PyTorch and exit codes. TestInstallRelease
# is not one of them, because it compiles the programs of a release for all platforms.
E2E_CORE := TestPyTorchExample|TestPyTorchMaster|TestTorchrun|TestStatefulSet|TestRestartContainerExit|TestUninstall

.PHONY: e2e-core
e2e-core: ## Run the end-to-end tests that need no other image than PyTorch's (5 minutes; needs root)
	cd test && go test -count=1 -timeout 30m -v -run '^($(E2E_CORE))$$' ./e2e/...

.PHONY: e2e-all
e2e-all: export ROLLCALL_E2E := all
e2e-all: e2e ## Run end-to-end tests of every framework (130 minutes, the first run about 3 hours)

DRAINS ?= 10
.PHONY: drain
drain: ## Drain 20 gangs in 10 ways, 10 times (90 minutes to 3 hours; DRAINS=1 for less; needs root)
	cd test && ROLLCALL_E2E=all go test -count=$(DRAINS) -timeout 240m -v -run 'TestDrain$$' ./e2e/...

.PHONY: upgrade
upgrade: ## Upgrade from the previous build to this build and back (15 minutes; needs root)
	cd test && ROLLCALL_TEST_UPGRADE=true go test -count=1 -timeout 30m -v -run 'TestUpgrade$$' ./integration/...
	cd test && ROLLCALL_E2E=all go test -count=1 -timeout 30m -v -run 'TestUpgrade$$' ./e2e/...

.PHONY: test-oldest
test-oldest: export ROLLCALL_TEST_KUBERNETES := oldest
test-oldest: ## Run integration and end-to-end tests on the oldest supported Kubernetes (15 minutes; needs root)
	cd test && go test -count=1 -timeout 30m ./integration/...
	cd test && go test -count=1 -timeout 60m -v ./e2e/...

# make test and make test-oldest run the newest and the oldest supported version.
VERSIONS ?= v1.34.1 v1.35.0 v1.36.0
.PHONY: test-versions
test-versions: ## Run tests of gangs on the versions of Kubernetes between the oldest and the newest, also without beta features
	for version in $(VERSIONS); do \
		test/cluster/components/kubernetes/upgrade.sh $$version $$version; \
		(cd test && ROLLCALL_TEST_KUBERNETES=$$version go test -count=1 -timeout 40m -v \
			-run '^(TestBetaFeaturesDisabled|TestGangs|TestMembers|TestRanks|TestRestart)$$' ./integration); \
	done

# The tests in the table of docs/reference/security.md. ATTACK_SEED repeats the random sequences from a seed.
ATTACKS = $(shell sed -n '/^\#\# Attacks/,$$p' docs/reference/security.md | grep -o '`Test[A-Za-z0-9]*' | tr -d '`' | sort -u | paste -sd '|')
SEQUENCES ?= 10000
ATTACK_TIME ?= 2m
.PHONY: attack
attack: export ATTACK_SEQUENCES := $(SEQUENCES)
attack: export ATTACK_TIME := $(ATTACK_TIME)
attack: ## Run all tests that attack Rollcall, with 10,000 random sequences (an hour on 2 cores; SEQUENCES=300 for less)
	go test -count=1 -timeout 60m -run '^($(ATTACKS))$$' ./...
	cd test && go test -count=1 -timeout 120m -v -run '^($(ATTACKS))$$' ./chart ./integration

# SEED repeats a run, LIFE only one life of it.
LIVES ?= 200
REAL_LIVES ?= 20
.PHONY: chaos
chaos: export LIVES := $(LIVES)
chaos: export REAL_LIVES := $(REAL_LIVES)
chaos: ## Run gangs through random failures on simulated and real nodes (30 minutes; needs root)
	cd test && go test -count=1 -timeout 120m -v ./chaos/...

# SEED prints one scenario, START repeats a run.
TIME ?= 10m
.PHONY: simulate
simulate: ## Run random sequences of events through the reconciler and the webhook (TIME=1h, SEED=42 for one)
	cd test && go run ./simulation/cmd/simulate -time $(TIME) $(if $(SEED),-seed $(SEED)) $(if $(START),-start $(START))

.PHONY: traces
traces: ## Record what the real Job and StatefulSet controllers do, for the simulation (5 minutes; review the diff)
	cd test && go test -count=1 -timeout 30m -run '^TestTraces$$' ./integration -update-traces

# MODE=all runs each mutant in all scenarios, instead of until a scenario fails, and MODE=random in random ones only.
MODE ?= true
.PHONY: mutants
mutants: ## Check that the scenarios of the simulator find mutants of the decisions (30 minutes on 2 cores)
	cd test && ROLLCALL_TEST_MUTANTS=$(MODE) go test -count=1 -timeout 120m -v -run TestMutants ./simulation

SOAK ?= 10m
.PHONY: soak
soak: export SOAK := $(SOAK)
soak: ## Create workloads for 10 minutes while everything is disturbed (SOAK=2m for less; needs root)
	cd test && go test -count=1 -timeout 60m -v ./soak/...

.PHONY: fuzz
fuzz: ## Fuzz the code that reads external input (a few minutes)
	go test ./injectors -run '^$$' -fuzz FuzzInject -fuzztime 60s
	go test ./internal/webhook -run '^$$' -fuzz FuzzAdmissionCost -fuzztime 30s
	go test ./internal/certs -run '^$$' -fuzz FuzzMerge -fuzztime 30s -fuzzminimizetime 10x
	go test ./internal/manifest -run '^$$' -fuzz FuzzReadAll -fuzztime 30s -fuzzminimizetime 10x
	go test ./internal/vet -run '^$$' -fuzz FuzzRun -fuzztime 30s -fuzzminimizetime 10x
	go test ./internal/progress -run '^$$' -fuzz FuzzRead -fuzztime 30s -fuzzminimizetime 10x

.PHONY: bench
bench: ## Benchmark the engine on one core, with the garbage collection of the webhook
	GOGC=400 go test ./injectors -run '^$$' -bench . -cpu 1

.PHONY: bench-cluster
bench-cluster: ## Compare gangs with plain Jobs on simulated nodes
	cd test && go test -count=1 -timeout 60m -v ./bench/...

.PHONY: bench-profile
bench-profile: ## Print CPU time, bytes and writes of small loads, with and without Rollcall (10 minutes)
	cd test && ROLLCALL_BENCH_PROFILE=true go test -count=1 -timeout 30m -v -run TestProfile ./bench/...

ROUNDS ?= 5
.PHONY: bench-peers
bench-peers: ## Compare gangs with those of other operators, and write the table in docs/benchmarks.md (25 minutes)
	cd test && ROLLCALL_BENCH_PEERS=true ROLLCALL_BENCH_ROUNDS=$(ROUNDS) go test -count=1 -timeout 60m -v -run 'TestPeers$$' ./bench/...

.PHONY: bench-faults
bench-faults: ## Compare what eight faults cost with other operators, and check 20 hangs (130 minutes; needs root)
	cd test && ROLLCALL_E2E=all ROLLCALL_BENCH_FAULTS=true go test -count=1 -timeout 180m -v -run '^(TestPeerFaults|TestHangs|TestNoFalseAlarm)$$' ./e2e/...

.PHONY: bench-admission
bench-admission: ## Measure the start of the webhook and the latency of admission (10 minutes)
	cd test && ROLLCALL_BENCH_ADMISSION=true go test -count=1 -timeout 30m -v -run 'TestAdmission$$' ./bench/...

.PHONY: bench-scale
bench-scale: ## Measure gangs of 10 to 10,000 simulated ranks, and 1,000 gangs of 10 (1 hour; SIZES=10,100 for less)
	cd test && ROLLCALL_BENCH_SCALE=true ROLLCALL_BENCH_SIZES=$(SIZES) \
	  go test -count=1 -timeout 180m -v -run 'TestScaleCurve$$|TestManyGangs$$' ./bench/...

.PHONY: bench-thousand
bench-thousand: ## Measure the manager with 1,000 gangs of 100 simulated pods (1 hour, 15 GiB of memory)
	cd test && ROLLCALL_BENCH_THOUSAND=true go test -count=1 -timeout 120m -v -run TestThousandGangs ./bench/...

##@ Images and releases

RELEASE = cd release && go run ./cmd/release

.PHONY: image
image: ## Build the manager image: REPOSITORY=... [TAG=...] pushes it, LOAD=kind|k3d|minikube loads it, FILE=... writes it
	$(RELEASE) image $(if $(TAG),--tag $(TAG) )$(if $(LOAD),--load $(LOAD),$(if $(FILE),--output $(abspath $(FILE)),--push --repository $(REPOSITORY)))

.PHONY: release
release: ## Build a release: VERSION=v0.2.0 REPOSITORY=registry.example.com/rollcall/manager [SIGNING_KEY=release.key] [DOWNLOAD_URL=https://...]
	$(RELEASE) build --version $(VERSION) --repository $(REPOSITORY) $(if $(DOWNLOAD_URL),--download-url $(DOWNLOAD_URL)) $(if $(SIGNING_KEY),--signing-key $(abspath $(SIGNING_KEY)))

.PHONY: licenses
licenses: ## Fail if a program of a release cannot be built, or contains a module whose license is not permitted
	$(RELEASE) licenses

GOVULNCHECK = go run golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: vulnerabilities
vulnerabilities: ## Fail if a program calls a function with a known vulnerability (needs vuln.go.dev)
	@if curl --silent --fail --max-time 10 --output /dev/null https://vuln.go.dev/index/db.json; then \
	  $(GOVULNCHECK) ./...; \
	else echo "Skipped: the vulnerability database vuln.go.dev is not available"; fi

##@ Maintenance

.PHONY: lint
lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) bin/vale-$(VALE_VERSION) bin/actionlint-$(ACTIONLINT_VERSION) ## Lint the code of the root, release and test, all prose, and workflows
	$(CURDIR)/$< run ./...
	cd release && $(CURDIR)/$< run --config $(CURDIR)/.golangci.yml ./...
	cd examples/custom-framework && $(CURDIR)/$< run --config $(CURDIR)/.golangci.yml ./...
	cd test && $(CURDIR)/$< run --config $(CURDIR)/.golangci.yml ./...
	git ls-files '*.go' '*.md' | grep -v /testdata/ | xargs $(CURDIR)/bin/vale-$(VALE_VERSION) --output=line
	$(CURDIR)/bin/actionlint-$(ACTIONLINT_VERSION) .github/workflows/*.yaml

bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "Building golangci-lint $(GOLANGCI_LINT_VERSION) (3 minutes, only once)"
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv bin/golangci-lint $@

bin/actionlint-$(ACTIONLINT_VERSION):
	GOBIN=$(CURDIR)/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	mv bin/actionlint $@

bin/vale-$(VALE_VERSION):
	@command -v cc > /dev/null || { echo "Vale needs a C compiler: apt-get install gcc libc6-dev" >&2; exit 1; }
	@echo "Building Vale $(VALE_VERSION) (1 minute, only once)"
	CGO_ENABLED=1 GOBIN=$(CURDIR)/bin go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)
	mv bin/vale $@

.PHONY: golden
golden: ## Rewrite golden files and generated pages (review the diff)
	go test ./injectors ./internal/check ./internal/inspect ./internal/migrate -update
	go test ./cmd/rollcall -run TestShownOutput -update
	go test ./docs/... -update # also pictures of what the pages show

.PHONY: gitops
gitops: ## Compare gangs with their manifests as Argo CD does, and check the Application (the first run compiles it: 3 minutes)
	cd test && ROLLCALL_TEST_ARGOCD=true go test -count=1 -v -run 'TestRestartWhileTerminating/parallel/ArgoCD' ./integration/...
	cd test && ROLLCALL_TEST_ARGOCD=true go test -count=1 -v -run TestApplicationFields ./chart

.PHONY: record-build
record-build: ## Record the objects that a build writes, for tests of upgrades: COMMIT=1a2b3c4
	cd test && ROLLCALL_RECORD_BUILD=$(COMMIT) go test -count=1 -v -run TestRecordBuild ./integration/...

# Each operator has its own module, because it requires its own versions of the Kubernetes libraries.
OPERATORS := training-operator mpi-operator trainer

.PHONY: operators
operators: ## Record the objects of Kubeflow operators and JobSet (the first run compiles them: 10 minutes)
	for o in $(OPERATORS); do (cd test/operators/$$o && go run .); done

.PHONY: operators-check
operators-check: ## Fail if a recording is stale
	cd test/operators/recording && go test ./...
	for o in $(OPERATORS); do (cd test/operators/$$o && go run . -check); done

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
