package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/golden"
)

// TestNodeFailures checks which nodes are listed, and why.
func TestNodeFailures(t *testing.T) {
	hourAgo := testTime.Add(-time.Hour)
	newGang := func(namespace, name string, f *failure.Failure, nodes ...lifecycle.FailedNode) Gang {
		return Gang{
			Namespace: namespace, Name: name, FailedNodes: nodes,
			state: lifecycle.State{FirstFailure: f, FailedNodes: nodes},
		}
	}
	exit := func(node string, at time.Time) *failure.Failure {
		return &failure.Failure{
			Rank: 1, Pod: "pod", Node: node, Container: "trainer", Reason: "Error", ExitCode: 139, Message: "output", Time: at,
		}
	}
	gangs := []Gang{
		newGang("vision", "bert", exit("node-b", hourAgo)),
		newGang("research", "train", exit("node-a", hourAgo.Add(time.Minute)),
			lifecycle.FailedNode{Name: "node-c", Failures: 1, LastFailureTime: hourAgo},
			lifecycle.FailedNode{Name: "node-b", Failures: 1, Reason: "NodeLost", LastFailureTime: hourAgo, Avoided: true},
			lifecycle.FailedNode{Name: "node-a", Failures: 2, LastFailureTime: hourAgo.Add(time.Minute), Avoided: true}),
		newGang("vision", "old", exit("node-a", testTime.Add(-25*time.Hour))),
		newGang("vision", "drained", &failure.Failure{Node: "node-a", Reason: "EvictionByEvictionAPI", Time: hourAgo}),
		newGang("vision", "healthy", nil),
	}
	var out strings.Builder
	PrintNodeFailures(&out, PrintOptions{Now: testTime}, ListNodeFailures(gangs, testTime))
	want := `NODE    SUSPECT  NAMESPACE  GANG   AVOIDED  AGE  REASON
node-a  -        research   train  yes      59m  ranks failed first 2 times
node-b  yes      research   train  yes      60m  NodeLost
node-b  yes      vision     bert   -        60m  Error, container trainer exited with code 139
node-c  -        research   train  -        60m  a rank failed first
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	out.Reset()
	const command = "$ rollcall status --nodes --all-namespaces\n"
	out.WriteString(command)
	PrintNodeFailures(&out, PrintOptions{Now: testTime}, ListNodeFailures([]Gang{
		newGang("vision", "bert", exit("node-1", testTime.Add(-12*time.Minute))),
		newGang("research", "train", exit("node-1", testTime.Add(-59*time.Minute)), lifecycle.FailedNode{
			Name: "node-1", Failures: 2, LastFailureTime: testTime.Add(-59 * time.Minute), Avoided: true,
		}),
	}, testTime))
	golden.CheckBlock(t, "../../docs/tasks/configure-restarts.md", command, out.String())
}
