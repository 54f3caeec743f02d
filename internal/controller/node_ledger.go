package controller

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// maxSuspectReports is the maximum number of nodes that Events report within [lifecycle.AvoidancePeriod].
const maxSuspectReports = 64

// nodeLedger is the ledger of the nodes on which gangs failed first. Each pass of a gang records what its status
// contains, so the first passes after a start restore the ledger, except for gangs that were deleted. The zero value is
// empty. Its methods are safe for concurrent use.
type nodeLedger struct {
	mu     sync.Mutex
	ledger lifecycle.NodeLedger
	// reports contains when each suspect was reported.
	reports map[string]time.Time
}

// record records the failures of a gang. It returns the suspects that were not reported before.
func (l *nodeLedger) record(namespace, uid string, failures []lifecycle.NodeFailure, now time.Time) []string {
	if len(failures) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ledger.Record(namespace, uid, failures, now) {
		return nil
	}
	for node, reported := range l.reports {
		if now.Sub(reported) >= lifecycle.AvoidancePeriod {
			delete(l.reports, node)
		}
	}
	var out []string
	for _, node := range l.ledger.Suspects(now) {
		if _, isReported := l.reports[node]; !isReported && len(l.reports) < maxSuspectReports {
			put(&l.reports, node, now)
			out = append(out, node)
		}
	}
	return out
}

func (l *nodeLedger) suspects(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Suspects(now)
}

// recordNodeFailures records on which nodes a gang failed first, and records an Event on each new suspect. The Event
// names no namespace, because users of others may read it.
func (r *Reconciler) recordNodeFailures(g *observedGang, s lifecycle.State) {
	meta := g.primaryMember().Meta()
	for _, name := range r.nodeLedger.record(meta.Namespace, string(meta.UID), s.NodeFailures(), r.Clock.Now()) {
		if !r.NodeEvents {
			continue
		}
		// kubectl describe looks for Events with the name of the node as the UID, as kubelets write them.
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		r.Recorder.Eventf(node, nil, corev1.EventTypeWarning, string(gang.ReasonNodeSuspected), eventActionCheckNodes,
			"Ranks of gangs in several namespaces failed first on the node within 24 hours. "+
				"Rollcall prefers other nodes for gangs that avoid nodes")
	}
}

// preferOtherNodes makes the pods of a suspended Job prefer other nodes to the suspects, if its gang avoids nodes, and
// records the suspects in the status. It is called only for a member that is written anyway.
func (r *Reconciler) preferOtherNodes(m member, changed gang.Workload, status *lifecycle.Status) {
	if changed.Job == nil {
		return
	}
	before := status.SuspectNodes
	status.SuspectNodes = nil
	if m.Result != nil && m.Result.Gang.RestartRules.AvoidNodes {
		status.SuspectNodes = r.nodeLedger.suspects(r.Clock.Now())
	}
	changed.ReplaceSuspectNodes(before, status.SuspectNodes)
}
