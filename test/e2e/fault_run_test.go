package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// faultRun is the training of all gangs in one namespace, during at most one fault of a node.
type faultRun struct {
	*testCluster
	ns, node string
	gangs    []faultGang
	// results is a directory with a file for each rank of a StatefulSet, whose pods and logs do not outlive the gang.
	results string
	// start is the begin of the fault, which causes a number of disruptions.
	start       time.Time
	disruptions int32
	times       map[string]*faultTimes
}

// faultTimes are the times from the begin of a fault until a gang restarts, until all of its ranks run again, and until
// it has succeeded; zero if the gang did not.
type faultTimes struct{ restarting, running, succeeded time.Duration }

// newFaultRun creates a namespace with the programs of the gangs.
func (s *testCluster) newFaultRun(t *testing.T, node string) *faultRun {
	t.Helper()
	r := &faultRun{
		testCluster: s, ns: s.createNamespace(t), node: node, gangs: faultGangs(), results: t.TempDir(), start: time.Now(),
		times: map[string]*faultTimes{},
	}
	for _, g := range r.gangs {
		r.times[g.name] = &faultTimes{}
	}
	r.createPrograms(t)
	return r
}

// holdName is the name of the ConfigMap that makes programs train until a node fails.
const holdName = "hold"

// createGangs creates all gangs. If they hold, it waits until they train with a rank on the node that will fail. The
// elastic gang does not hold, because it stays in its first attempt. So it starts when all others train.
func (r *faultRun) createGangs(t *testing.T, images map[string]string, hold bool) {
	t.Helper()
	if hold {
		_, err := r.client.CoreV1().ConfigMaps(r.ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: holdName}, Data: map[string]string{"HOLD": "1"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range r.gangs {
		if hold && g.elastic {
			r.waitForTraining(t, r.gangs[:i])
		}
		r.createGang(t, g, images[g.name])
	}
	if hold {
		r.waitForTraining(t, r.gangs)
	}
}

// release lets the programs of later attempts end.
func (r *faultRun) release(t *testing.T) {
	t.Helper()
	err := r.client.CoreV1().ConfigMaps(r.ns).Delete(t.Context(), holdName, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// createPrograms creates the ConfigMap of newPodSpec from testdata/faults.
func (r *faultRun) createPrograms(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "faults", "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	programs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "program"}, Data: map[string]string{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		programs.Data[filepath.Base(file)] = string(text)
	}
	if _, err := r.client.CoreV1().ConfigMaps(r.ns).Create(t.Context(), programs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createGang creates the workloads of a gang. Its pods spread over all nodes that work.
func (r *faultRun) createGang(t *testing.T, g faultGang, image string) {
	t.Helper()
	for _, role := range g.roles {
		spec := r.newPodSpec(role.command...)
		spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
		spec.SecurityContext.FSGroup = ptr.To[int64](1000) // for ssh
		c := &spec.Containers[0]
		c.Image = image
		c.Env = []corev1.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}}
		if g.elastic {
			c.Env = append(c.Env, corev1.EnvVar{Name: "FULL", Value: "3"}, corev1.EnvVar{Name: "STEPS", Value: "120"})
		} else {
			c.Env = append(c.Env, corev1.EnvVar{Name: "HOLD", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: holdName}, Key: "HOLD", Optional: ptr.To(true)}}})
		}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: g.name}},
			NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor),
		}}
		if g.statefulSet {
			c.Env = append(c.Env, corev1.EnvVar{Name: "RESULTS", Value: "/results"})
			mountDirectory(t, &spec, "results", r.results)
			r.createStatefulSet(t, r.ns, g.name, role.ranks, spec)
			continue
		}
		labels := map[string]string{gang.LabelFramework: g.framework}
		if role.name != "" {
			labels[gang.LabelRole] = role.name
		}
		r.createLabeledJob(t, r.ns, g.workloadName(role), labels, role.ranks, g.annotations, spec)
	}
}

func (g faultGang) workloadName(role faultRole) string {
	if role.name == "" {
		return g.name
	}
	return g.name + "-" + role.name
}

// readFirst returns the workload of a gang that prints the result.
func (r *faultRun) readFirst(ctx context.Context, g faultGang) (gang.Workload, error) {
	return r.readWorkload(ctx, r.ns, g.workloadName(g.roles[0]), g.statefulSet)
}

// waitForTraining waits until each of the gangs trains, with a rank on the node that will fail.
func (r *faultRun) waitForTraining(t *testing.T, gangs []faultGang) {
	t.Helper()
	for _, g := range gangs {
		r.waitForLogText(t, r.ns, g.name, "trains", 1)
		onNode := func(pod corev1.Pod) bool { return pod.Spec.NodeName == r.node }
		if !slices.ContainsFunc(r.listPods(t, r.ns, g.name), onNode) {
			t.Fatalf("the gang %s has no rank on the node %s", g.name, r.node)
		}
	}
}

// waitForGangs waits until all gangs succeed. confirm confirms that the processes of a lost node do not run; nil if no
// node is lost. Only a StatefulSet needs that, because Kubernetes creates no second pod with the name of a lost one.
// The elastic gang needs the longest time, so it is the last.
func (r *faultRun) waitForGangs(t *testing.T, confirm func(*testing.T)) {
	t.Helper()
	var waiting, elastic []faultGang
	for _, g := range r.gangs {
		switch {
		case g.statefulSet && confirm != nil:
			waiting = append(waiting, g)
		case g.elastic:
			elastic = append(elastic, g)
		default:
			r.waitForSuccess(t, g)
		}
	}
	for _, g := range waiting {
		waitForLostNodeReport(t, r.node, func(ctx context.Context) (gang.Workload, error) { return r.readFirst(ctx, g) })
		t.Logf("%s waits for the node, which is confirmed %.0f s after its fault", g.name, time.Since(r.start).Seconds())
		confirm(t)
		r.waitForSuccess(t, g)
	}
	for _, g := range elastic {
		r.waitForSuccess(t, g)
	}
}

// waitForSuccess waits until a gang succeeds. It records the times of all gangs meanwhile. All of them need longer than
// one wait is permitted to take, because their programs use all CPU time of the machine.
func (r *faultRun) waitForSuccess(t *testing.T, g faultGang) {
	t.Helper()
	wait.ForAtMost(t, 3*wait.Timeout, "the success of "+g.name, func(ctx context.Context) error {
		for _, other := range r.gangs {
			if err := r.recordTimes(t, ctx, other); err != nil {
				return err
			}
		}
		if v := r.times[g.name]; v.succeeded == 0 {
			return fmt.Errorf("%+v", *v)
		}
		return nil
	})
}

// recordTimes reads the status of a gang and records what it has reached by now.
func (r *faultRun) recordTimes(t *testing.T, ctx context.Context, g faultGang) error {
	t.Helper()
	v, elapsed := r.times[g.name], time.Since(r.start)
	w, err := r.readFirst(ctx, g)
	if err != nil {
		return err
	}
	status := lifecycle.ReadStatus(w)
	if status.Phase == lifecycle.Failed {
		t.Fatalf("%s failed: %s", g.name, status.Message)
	}
	if status.Disruptions+status.Restarts > 0 {
		v.restarting = cmp.Or(v.restarting, elapsed)
		if status.Phase == lifecycle.Running {
			v.running = cmp.Or(v.running, elapsed)
		}
	}
	if status.Phase == lifecycle.Succeeded {
		v.succeeded = cmp.Or(v.succeeded, elapsed)
	}
	return nil
}

// checkGang checks the disruptions and the result of a gang that has succeeded, and logs its times.
func (r *faultRun) checkGang(t *testing.T, g faultGang) {
	t.Helper()
	w, err := r.readFirst(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	status := lifecycle.ReadStatus(w)
	v := r.times[g.name]
	t.Logf("| %s | %.0f s | %.0f s | %.0f s | %d | %s |", g.name, v.restarting.Seconds(), v.running.Seconds(),
		v.succeeded.Seconds(), status.Disruptions, status.FirstFailure)
	isRight := status.Disruptions == r.disruptions || g.elastic && status.Disruptions < r.disruptions
	if status.Restarts != 0 || !isRight {
		t.Errorf("%s: %d restarts and %d disruptions, want 0 and %d",
			g.name, status.Restarts, status.Disruptions, r.disruptions)
	}
	outputs := r.readResults(t, g)
	if len(outputs) == 0 {
		t.Errorf("%s: no rank has a result", g.name)
	}
	for from, output := range outputs {
		if !strings.Contains(output, "result "+g.result+"\n") {
			t.Errorf("%s: %s did not print the result %s:\n%s", g.name, from, g.result, output)
		}
	}
}

// readResults returns the outputs of the ranks of the first role that have succeeded.
func (r *faultRun) readResults(t *testing.T, g faultGang) map[string]string {
	t.Helper()
	outputs := map[string]string{}
	for _, pod := range r.listPods(t, r.ns, g.name) {
		first := cmp.Or(g.roles[0].name, pod.Labels[gang.LabelRole])
		if pod.Status.Phase == corev1.PodSucceeded && pod.Labels[gang.LabelRole] == first {
			outputs[pod.Name] = r.readPodLog(t, pod)
		}
	}
	if !g.statefulSet {
		return outputs
	}
	for rank := range g.roles[0].ranks {
		file := fmt.Sprintf("%s-%d", g.name, rank)
		text, err := os.ReadFile(filepath.Join(r.results, file))
		if err != nil {
			t.Error(err)
		}
		outputs[file] = string(text)
	}
	return outputs
}
