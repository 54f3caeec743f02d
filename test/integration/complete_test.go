package integration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// testRestartSetRank0: the end of rank 0 ends a gang of one StatefulSet, whose other ranks are stopped.
func testRestartSetRank0(t *testing.T, m *manager, ns string) {
	w := gang.Workload{StatefulSet: statefulSet("train", 3)}
	w.StatefulSet.Annotations = map[string]string{gang.AnnotationSuccessPolicy: gang.SuccessRank0}
	r := m.trains(t, ns, w)
	r.endsInPlace(r.pod("worker-1"))
	r.stays(2 * time.Second)
	r.endsInPlace(r.pod("worker-0"))
	r.reaches(gang.Succeeded, 0)
	r.gone("worker")
	all, err := r.workloads(t.Context())
	if err != nil || *all[0].StatefulSet.Spec.Replicas != 0 {
		t.Errorf("%d replicas, %v", *all[0].StatefulSet.Spec.Replicas, err)
	}
	r.stays(2 * time.Second)
}

// testRestartWorker0: the end of TensorFlow's first worker ends a gang that has no chief, its parameter servers included.
func testRestartWorker0(t *testing.T, m *manager, ns string) {
	workers, servers := memberJob("worker", 2, "worker=2,ps=1"), memberJob("ps", 1, "worker=2,ps=1")
	for _, w := range []gang.Workload{workers, servers} {
		w.Meta().Labels[gang.LabelFramework] = "tensorflow"
	}
	r := m.trains(t, ns, workers, servers)
	r.ends(r.pod("worker-0"))
	r.reaches(gang.Succeeded, 0)
	r.gone("worker")
	r.gone("ps")
	r.stays(2 * time.Second)
}

// endsInPlace lets the container of a pod of a StatefulSet end well and start anew, as the kubelet does.
func (r *trainee) endsInPlace(p corev1.Pod) {
	r.t.Helper()
	p = *p.DeepCopy()
	c := &p.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed", FinishedAt: metav1.Now()}
	r.report(p)
}
