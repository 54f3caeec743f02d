package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rollcall.training/gang"
	"rollcall.training/test/installation"
)

const (
	// attackSequencesEnv is the number of random sequences, and attackSeedEnv the first seed.
	attackSequencesEnv = "ATTACK_SEQUENCES"
	attackSeedEnv      = "ATTACK_SEED"
	// defaultAttackSequences take some seconds.
	defaultAttackSequences = 300
	// attackSteps is the number of requests of a sequence after the creation.
	attackSteps      = 6
	progressInterval = 500
	// attackWorkers is the number of sequences at the same time.
	attackWorkers = 8
)

// testRandomAttacks sends random sequences of creations, updates and subresources, which write the protected keys
// and change the labels on which the protection could depend. No response may contain a forged value, and no
// request without a protected key may be denied. ATTACK_SEQUENCES=10000 is the number of sequences.
func testRandomAttacks(t *testing.T, m *manager, ns string) {
	count, seed := readAttackOption(t, attackSequencesEnv, defaultAttackSequences),
		readAttackOption(t, attackSeedEnv, 1)
	user := dynamic.NewForConfigOrDie(m.Cluster.Config())
	controller := dynamic.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName))
	waitForKeysPolicy(t, m, ns)
	var next, accepted, denied atomic.Int64
	var workers sync.WaitGroup
	start := time.Now()
	for range attackWorkers {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(count) && !t.Failed() && t.Context().Err() == nil; n = next.Add(1) - 1 {
				s := newAttackSequence(user, controller, ns, int64(seed)+n)
				if mistake := s.run(t.Context()); mistake != "" {
					t.Errorf("seed %d: %s\n%s", int64(seed)+n, mistake, strings.Join(s.log, "\n"))
				}
				if (n+1)%progressInterval == 0 {
					t.Logf("%d sequences in %s", n+1, time.Since(start).Round(time.Second))
				}
				accepted.Add(s.accepted)
				denied.Add(s.denied)
			}
		})
	}
	workers.Wait()
	t.Logf("%d sequences in %s: %d requests were accepted, and the policies denied %d",
		count, time.Since(start).Round(time.Second), accepted.Load(), denied.Load())
	if accepted.Load() == 0 || denied.Load() == 0 {
		t.Error("the sequences tried nothing")
	}
}

// readAttackOption returns the number in an environment variable.
func readAttackOption(t *testing.T, name string, value int) int {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		var err error
		if value, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return value
}

// attackPayload is a random content of a request: the changes of labels, annotations and spec. A nil value
// removes a key.
type attackPayload struct {
	labels, annotations map[string]any
	spec                map[string]any
	// writesKeys is true if the payload contains a protected key with a value.
	writesKeys bool
}

// forgedMarker is part of each forged value that Rollcall never writes.
const forgedMarker = "forged"

// forgedSize is a size that no workload of the sequences has.
const forgedSize = 4711

// newAttackPayload returns random changes for a kind of workloads.
func newAttackPayload(random *rand.Rand, isJob, canRemove bool) attackPayload {
	p := attackPayload{labels: map[string]any{}, annotations: map[string]any{}, spec: map[string]any{}}
	maybe := func(target map[string]any, probability float64, key string, values ...any) {
		if random.Float64() >= probability {
			return
		}
		if value := values[random.IntN(len(values))]; value != nil || canRemove {
			target[key] = value
		}
	}
	maybe(p.labels, 0.4, "rollcall.training/framework", "pytorch", nil, "generic")
	maybe(p.labels, 0.3, "rollcall.training/inject", "false", nil, "true")
	maybe(p.labels, 0.1, "rollcall.training/gang", "other", nil)
	maybe(p.labels, 0.2, "example.com/team", "a", nil)
	maybe(p.annotations, 0.1, "rollcall.training/max-restarts", "5", nil)
	maybe(p.annotations, 0.1, "rollcall.training/roles", "worker=4711,master=1", nil)
	maybe(p.annotations, 0.2, "example.com/note", "x", nil)
	maybe(p.labels, 0.2, "rollcall.training/phase", "Forged", nil, "Succeeded", "Failed")
	maybe(p.labels, 0.2, "rollcall.training/size", forgedLabel, nil)
	maybe(p.labels, 0.1, "rollcall.training/accelerators", forgedLabel, nil)
	maybe(p.annotations, 0.3, "rollcall.training/status", nil, `{"version":1,"message":"forged","phase":"Failed"}`,
		`{"version":1,"phase":"Restarting","message":"forged","internal":{"suspendedByRollcall":true}}`,
		`{"version":1,"phase":"Restarting","message":"forged","internal":{"attempt":1,"suspendedByRollcall":true}}`,
		`{"version":1,"phase":"Restarting","message":"forged"}`)
	maybe(p.annotations, 0.2, "rollcall.training/suspended-by", nil, "rollcall", "forged")
	maybe(p.annotations, 0.3, "rollcall.training/injected", nil, `{"injector":"forged"}`,
		fmt.Sprintf(`{"injector":"forged","replicas":%d}`, forgedSize),
		fmt.Sprintf(`{"injector":"forged","replicas":1,"Replicas":%d}`, forgedSize),
		`{"injector":"forged","replicas":1}`, `{"injector":"forged","replicas":2}`)
	if isJob {
		maybe(p.spec, 0.3, "suspend", true, true, true, false)
	} else {
		maybe(p.spec, 0.3, "replicas", 0, 0, 1, 2) // pods take time
	}
	for _, key := range protectedLabels {
		p.writesKeys = p.writesKeys || p.labels[key] != nil
	}
	for _, key := range protectedAnnotations {
		p.writesKeys = p.writesKeys || p.annotations[key] != nil
	}
	return p
}

// forgedLabel is the forged size in a label. Admission resumes a copied StatefulSet with its recorded size, so a user
// can create a gang of forgedSize ranks.
const forgedLabel = "9999"

var (
	protectedLabels = []string{
		"rollcall.training/phase", "rollcall.training/size", "rollcall.training/accelerators"}
	protectedAnnotations = []string{
		"rollcall.training/status", "rollcall.training/suspended-by", "rollcall.training/injected"}
)

// hasKeys reports whether the payload contains a key of Rollcall.
func (p attackPayload) hasKeys() bool {
	for _, keys := range []map[string]any{p.labels, p.annotations} {
		for key := range keys {
			if strings.HasPrefix(key, gang.Prefix) {
				return true
			}
		}
	}
	return false
}

// object returns the payload as a patch or as an object of server-side apply.
func (p attackPayload) object() map[string]any {
	object := map[string]any{"metadata": map[string]any{"labels": p.labels, "annotations": p.annotations}}
	if len(p.spec) > 0 {
		object["spec"] = p.spec
	}
	return object
}

// attackOptions returns the options of dry runs for some requests.
func attackOptions(random *rand.Rand) []string {
	if random.Float64() < 0.2 {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// attackPatchType returns how a sequence sends a payload.
func attackPatchType(random *rand.Rand) types.PatchType {
	if random.Float64() < 0.25 {
		return types.ApplyYAMLPatchType
	}
	return types.MergePatchType
}
