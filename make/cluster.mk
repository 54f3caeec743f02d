# A cluster on this machine for manual tests. See test/cluster/doc.go.
CLUSTER_NODES ?= real
CLUSTER = cd test && go run ./cluster/cmd/cluster

##@ Manual cluster

.PHONY: cluster-up cluster-down cluster-status cluster-clean
cluster-up: ## Start a cluster (CLUSTER_NODES=real|kwok|none; real needs root)
	$(CLUSTER) up --nodes $(CLUSTER_NODES)

cluster-down: ## Stop the cluster
	$(CLUSTER) down

cluster-status: ## Show all clusters
	$(CLUSTER) status

cluster-clean: ## Remove the leftovers of crashed clusters
	$(CLUSTER) clean
