package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// resultFileEnv is the environment variable with the path of the result file.
	resultFileEnv = "ROLLCALL_BENCH_OUT"
	// allVariantsEnv is the environment variable that adds variants to a benchmark. They separate
	// the cost of the environment variables from the cost of the Service.
	allVariantsEnv = "ROLLCALL_BENCH_ALL_VARIANTS"

	// nodeCount is the number of nodes of a gang of 256 ranks with 8 ranks on each.
	nodeCount = 32
	// measuredRounds is the number of measurements of each load in each variant. A first round
	// warms up caches and is not counted.
	measuredRounds = 3
)

var overheadLoads = []load{{Gangs: 1, Ranks: 256}, {Gangs: 100, Ranks: 8}}

// loadResult holds all runs of one load.
type loadResult struct {
	load
	runs map[variant][]runResult
}

// TestLabelOverhead compares labeled gangs with plain Jobs. See the package comment. It logs the
// result.
func TestLabelOverhead(t *testing.T) {
	variants := []variant{variantPlain, variantManual, variantLabeled}
	if os.Getenv(allVariantsEnv) == "true" {
		variants = []variant{variantPlain, variantInjectedOnly, variantManual, variantLabeled}
	}
	namespace := func(l load, v variant, round int) string {
		return fmt.Sprintf("bench-%dx%d-%s-%d", l.Gangs, l.Ranks, v, round)
	}
	var namespaces []string
	for _, l := range overheadLoads {
		for _, v := range variants {
			for round := range measuredRounds + 1 {
				namespaces = append(namespaces, namespace(l, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{
		Nodes:          cluster.Kwok,
		KwokNodes:      nodeCount,
		APIServerFlags: audit.apiServerFlags(),
	})
	installation.New(t, c, "--log-level=info") // the default level: debug would cost time
	g := newBenchCluster(t, c, audit)

	var results []loadResult
	for _, l := range overheadLoads {
		m := loadResult{load: l, runs: map[variant][]runResult{}}
		for round := range measuredRounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				// Alternate the order, so that no variant always runs first in a rested cluster.
				slices.Reverse(order)
			}
			for _, v := range order {
				r := g.measureLoad(t, l, v, namespace(l, v, round))
				t.Logf("round %d: %s, %s: ready after %.2f s", round, l, v, r.ReadySeconds)
				checkWrites(t, l, v, r)
				if round > 0 {
					m.runs[v] = append(m.runs[v], r)
				}
			}
		}
		results = append(results, m)
	}
	reportResults(t, variants, results)
}

func newBenchCluster(t *testing.T, c *cluster.Cluster, audit *auditLog) *benchCluster {
	t.Helper()
	config := c.Config()
	// The benchmark watches many pods. Decoding them as JSON would take CPU time from the measured
	// programs.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{ClusterDomain: "cluster.local"})
	return &benchCluster{client: client, audit: audit, engine: engine}
}

// reportResults logs the result as tables and writes it to the file that resultFileEnv names.
func reportResults(t *testing.T, variants []variant, results []loadResult) {
	t.Helper()
	summaries := make([]loadSummary, 0, len(results))
	for _, m := range results {
		s := m.summarizeRuns(variants)
		t.Logf("\n%s", s.formatTable())
		summaries = append(summaries, s)
	}
	path := os.Getenv(resultFileEnv)
	if path == "" {
		return
	}
	text, err := json.MarshalIndent(summaries, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		t.Fatalf("writing the result: %v", err)
	}
}
