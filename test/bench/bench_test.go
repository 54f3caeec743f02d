package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"k8s.io/client-go/dynamic"
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
	// profileEnv and peersEnv are the environment variables that enable TestProfile and TestPeers.
	profileEnv = "ROLLCALL_BENCH_PROFILE"
	peersEnv   = "ROLLCALL_BENCH_PEERS"
	// roundsEnv is the environment variable with the number of measurements of each load in each variant.
	roundsEnv = "ROLLCALL_BENCH_ROUNDS"

	// nodeCount is the number of nodes of a gang of 256 ranks with 8 ranks on each.
	nodeCount = 32
	// measuredRounds is the number of measurements of each load in each variant, without roundsEnv.
	measuredRounds = 3
)

var overheadLoads = []load{{Gangs: 1, Ranks: 256}, {Gangs: 100, Ranks: 8}}

// profileLoads are smaller, so that a profile takes minutes.
var profileLoads = []load{{Gangs: 1, Ranks: 64}, {Gangs: 8, Ranks: 8}}

// warmUpLoad runs once in each variant. It warms up caches and is not counted.
var warmUpLoad = load{Gangs: 2, Ranks: 8}

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
		variants = []variant{variantPlain, variantInjectedOnly, variantManual, variantRank0, variantLabeled}
	}
	reportResults(t, runRounds(t, overheadLoads, variants))
}

// TestProfile prints where the time of small loads goes: the CPU time of each program, the size of pods
// and of their events, and the writes of each resource.
func TestProfile(t *testing.T) {
	if os.Getenv(profileEnv) != "true" {
		t.Skipf("%s=true profiles small loads", profileEnv)
	}
	variants := []variant{variantPlain, variantInjectedOnly, variantManual, variantRank0, variantLabeled}
	reportResults(t, runRounds(t, profileLoads, variants))
}

// runRounds measures each load in each variant by turns, on a cluster with Rollcall and the operators of the
// variants.
func runRounds(t *testing.T, loads []load, variants []variant) []loadSummary {
	t.Helper()
	rounds := readRounds(t)
	namespace := func(l load, v variant, round int) string {
		return fmt.Sprintf("bench-%dx%d-%s-%d", l.Gangs, l.Ranks, v, round)
	}
	var namespaces []string
	for _, v := range variants {
		namespaces = append(namespaces, namespace(warmUpLoad, v, 0))
		for _, l := range loads {
			for round := range rounds {
				namespaces = append(namespaces, namespace(l, v, round+1))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{
		Nodes:          cluster.Kwok,
		KwokNodes:      nodeCount,
		APIServerFlags: audit.apiServerFlags(),
	})
	startOperators(t, c, variants)
	installation.New(t, c, "--log-level=info") // the default level: debug would cost time
	g := newBenchCluster(t, c, audit)

	for _, v := range variants {
		g.measureLoad(t, warmUpLoad, v, namespace(warmUpLoad, v, 0))
	}
	var summaries []loadSummary
	for _, l := range loads {
		m := loadResult{load: l, runs: map[variant][]runResult{}}
		for round := 1; round <= rounds; round++ {
			order := slices.Clone(variants)
			if round%2 == 0 {
				// Alternate the order, so that no variant always runs first in a rested cluster.
				slices.Reverse(order)
			}
			for _, v := range order {
				r := g.measureLoad(t, l, v, namespace(l, v, round))
				t.Logf("round %d: %s, %s: ready after %.2f s", round, l, v, r.ReadySeconds)
				checkWrites(t, l, v, r)
				m.runs[v] = append(m.runs[v], r)
			}
		}
		summary := m.summarizeRuns(variants)
		t.Logf("\n%s", summary.formatTable())
		summaries = append(summaries, summary)
	}
	return summaries
}

// readRounds returns the number of rounds that are measured.
func readRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(roundsEnv)
	if text == "" {
		return measuredRounds
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q, want a number of at least 1", roundsEnv, text)
	}
	return rounds
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
	dynamicClient, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{ClusterDomain: "cluster.local"})
	return &benchCluster{client: client, dynamic: dynamicClient, audit: audit, engine: engine}
}

// reportResults writes the result to the file that resultFileEnv names.
func reportResults(t *testing.T, summaries []loadSummary) {
	t.Helper()
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
