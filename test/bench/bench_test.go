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
	// outEnv names the file for the result.
	outEnv = "ROLLCALL_BENCH_OUT"
	// partsEnv asks for what the environment and the Service cost by themselves.
	partsEnv = "ROLLCALL_BENCH_PARTS"

	// nodes are as many as a gang of 256 would have with 8 ranks on each.
	nodes = 32
	// rounds is how often each load is measured in each variant. The round before them warms up caches and is left out.
	rounds = 3
)

var loads = []load{{Gangs: 1, Ranks: 256}, {Gangs: 100, Ranks: 8}}

// measured is all runs of one load.
type measured struct {
	load
	runs map[variant][]run
}

// TestBench measures; see the package's comment. Its result is in its log.
func TestBench(t *testing.T) {
	variants := []variant{plain, byHand, labelled}
	if os.Getenv(partsEnv) == "true" {
		variants = []variant{plain, injected, byHand, labelled}
	}
	namespace := func(l load, v variant, round int) string {
		return fmt.Sprintf("bench-%dx%d-%s-%d", l.Gangs, l.Ranks, v, round)
	}
	var namespaces []string
	for _, l := range loads {
		for _, v := range variants {
			for round := range rounds + 1 {
				namespaces = append(namespaces, namespace(l, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodes, APIServerFlags: audit.flags()})
	installation.New(t, c, "--log-level=info") // the default, where debug would cost time
	g := newGround(t, c, audit)

	var results []measured
	for _, l := range loads {
		m := measured{load: l, runs: map[variant][]run{}}
		for round := range rounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				// Nobody shall always be the first, in a cluster that has had more rest.
				slices.Reverse(order)
			}
			for _, v := range order {
				r := g.run(t, l, v, namespace(l, v, round))
				t.Logf("round %d: %s, %s: ready after %.2f s", round, l, v, r.Ready)
				checkWrites(t, l, v, r)
				if round > 0 {
					m.runs[v] = append(m.runs[v], r)
				}
			}
		}
		results = append(results, m)
	}
	report(t, variants, results)
}

func newGround(t *testing.T, c *cluster.Cluster, audit *auditLog) *ground {
	t.Helper()
	config := c.Config()
	// The pods that we watch are many, and decoding them takes time from those who are measured.
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	engine := injectors.New(injectors.Builtin(), gang.Config{ClusterDomain: "cluster.local"})
	return &ground{client: client, audit: audit, engine: engine}
}

// report logs the result as tables, and writes it to the file that the environment names.
func report(t *testing.T, variants []variant, results []measured) {
	t.Helper()
	summaries := make([]summary, 0, len(results))
	for _, m := range results {
		s := m.summary(variants)
		t.Logf("\n%s", s.table())
		summaries = append(summaries, s)
	}
	path := os.Getenv(outEnv)
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
