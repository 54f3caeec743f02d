# A real cluster on this machine, to try things by hand: see test/cluster/doc.go.
CLUSTER_NODES ?= real
CLUSTER = cd test && go run ./cluster/cmd/cluster

##@ A cluster by hand

.PHONY: cluster-up cluster-down cluster-status cluster-clean
cluster-up: ## Start a cluster that runs until it is stopped (CLUSTER_NODES=real|kwok|none; real needs root)
	$(CLUSTER) up --nodes $(CLUSTER_NODES)

cluster-down: ## Stop the cluster, and take away what crashed ones left
	$(CLUSTER) down

cluster-status: ## Show the clusters that run
	$(CLUSTER) status

cluster-clean: ## Take away what crashed clusters left, and nothing that runs
	$(CLUSTER) clean
