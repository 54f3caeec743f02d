package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/policy"
)

// testPolicies provides one policy and the errors of reading it, which a test can change.
type testPolicies struct {
	policy                   *policy.Policy
	currentErr, namespaceErr error
}

func (p *testPolicies) Current() (*policy.Policy, error) { return p.policy, p.currentErr }
func (p *testPolicies) Subscribe() <-chan struct{}       { return nil }

func (p *testPolicies) DescribeNamespace(_ context.Context, name string) (policy.Namespace, error) {
	return policy.Namespace{Name: name}, p.namespaceErr
}

// readPolicy returns the policy with the given content after apiVersion and kind.
func readPolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	text = "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n" + text
	p, problems := policy.Read("policy.yaml", []byte(text), testEngine.Frameworks())
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

func newGPUJob(t *testing.T, name, role, roles string, pods int32) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: newObjectMeta(name, "pytorch", role, ""), Spec: singlePodJobSpec()}
	if role == "" {
		delete(job.Labels, gang.LabelRole)
	}
	if roles != "" {
		job.Annotations = map[string]string{gang.AnnotationRoles: roles}
	}
	job.Spec.Parallelism, job.Spec.Completions = ptr.To(pods), ptr.To(pods)
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	job.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	return admitObject(t, job).(*batchv1.Job)
}

// readStatus returns the status of a Job.
func (w *testCluster) readStatus(t *testing.T, name string) lifecycle.Status {
	t.Helper()
	var job batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &job); err != nil {
		t.Fatal(err)
	}
	return lifecycle.ReadStatus(gang.Workload{Job: &job})
}

// TestPolicyOfExistingGang checks that a policy that becomes stricter is reported, and that nothing else
// happens to the gang.
func TestPolicyOfExistingGang(t *testing.T) {
	w := newTestCluster(t, newGPUJob(t, "train", "", "", 4))
	policies := &testPolicies{policy: readPolicy(t, "cluster: {limits: {gpus: {max: 32}}}")}
	w.Policy = policies
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.reconcileOnce(t, req)
	if s := w.readStatus(t, "train"); s.Reason == gang.ReasonPolicyViolated {
		t.Fatalf("a gang within the limits has the status %+v", s)
	}
	drainEvents(w.Recorder.(*events.FakeRecorder))

	policies.policy = readPolicy(t, "cluster: {limits: {gpus: {max: 16}, size: {max: 2, mode: audit}}}")
	w.reconcileOnce(t, req)
	want := "The gang violates the policy of the cluster: train: spec.parallelism: makes a gang of 32 accelerators " +
		"(4 pods x 8), at most 16 are allowed; use at most 2 pods (policy cluster/gpus)"
	s := w.readStatus(t, "train")
	if s.Reason != gang.ReasonPolicyViolated || s.Message != want || s.Phase != lifecycle.Pending {
		t.Errorf("the status is %+v, want Pending and the message %q", s, want)
	}
	if got := drainEvents(w.Recorder.(*events.FakeRecorder)); len(got) != 1 ||
		!strings.HasPrefix(got[0], "Warning PolicyViolated The gang violates") {
		t.Errorf("Events: %q, want one PolicyViolated", got)
	}
	wantCount := map[violatedRule]int{{"cluster/gpus", policy.ModeEnforce}: 1, {"cluster/size", policy.ModeAudit}: 1}
	if diff := cmp.Diff(wantCount, w.sessions.countViolations(), cmp.AllowUnexported(violatedRule{})); diff != "" {
		t.Error("violating gangs (-want +got):\n" + diff)
	}
	var job batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, &job); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(job.Spec.Suspend, false) || ptr.Deref(job.Spec.Parallelism, 0) != 4 {
		t.Errorf("the spec of the Job changed: %+v", job.Spec)
	}
	version := job.ResourceVersion
	w.reconcileOnce(t, req)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(&job), &job); err != nil || job.ResourceVersion != version {
		t.Errorf("another pass wrote to the Job, %v", err)
	}

	policies.policy = readPolicy(t, "")
	w.reconcileOnce(t, req)
	if s := w.readStatus(t, "train"); s.Reason != gang.ReasonGangPending || len(w.sessions.countViolations()) != 0 {
		t.Errorf("after the policy was removed, the status is %+v", s)
	}
}

// TestViolationWithoutPolicy checks that a gang keeps its violation while the policy cannot be compared, as
// after the start of a manager.
func TestViolationWithoutPolicy(t *testing.T) {
	violated := readPolicy(t, "cluster: {limits: {gpus: {max: 16}}}")
	for name, unavailable := range map[string]*testPolicies{
		"the policy is not loaded":     {currentErr: errors.New("not loaded")},
		"the namespace cannot be read": {policy: violated, namespaceErr: errors.New("not found")},
		"the policy is the same":       {policy: violated},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, newGPUJob(t, "train", "", "", 4))
			w.Policy = &testPolicies{policy: violated}
			w.reconcileOnce(t, trainJobRequest)
			before, _ := w.getJob(t, "train")
			drainEvents(w.Recorder.(*events.FakeRecorder))

			w.restartManager()
			w.Policy = unavailable
			w.reconcileOnce(t, trainJobRequest)
			after, status := w.getJob(t, "train")
			if after.ResourceVersion != before.ResourceVersion || status.Reason != gang.ReasonPolicyViolated {
				t.Errorf("the pass wrote the status %+v", status)
			}
			if got := drainEvents(w.Recorder.(*events.FakeRecorder)); len(got) != 0 {
				t.Errorf("Events: %q, want none", got)
			}
		})
	}
}

func drainEvents(recorder *events.FakeRecorder) []string {
	var out []string
	for {
		select {
		case e := <-recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// TestPolicyOfSeveralMembers checks that the accelerators of all members count as soon as all exist. At
// admission, each member is within the limit.
func TestPolicyOfSeveralMembers(t *testing.T) {
	const roles = "master=1,worker=4"
	master, worker := newGPUJob(t, "train-master", "master", roles, 1), newGPUJob(t, "train-worker", "worker", roles, 4)
	limit := &testPolicies{policy: readPolicy(t, "cluster: {limits: {gpus: {max: 32}}}")}
	req := Request{Namespace: "team", Gang: "train"}

	w := newTestCluster(t, worker.DeepCopy())
	w.Policy = limit
	w.reconcileOnce(t, req)
	if s := w.readStatus(t, "train-worker"); s.Reason == gang.ReasonPolicyViolated {
		t.Errorf("before all members exist, the status is %+v", s)
	}

	w = newTestCluster(t, worker, master)
	w.Policy = limit
	w.reconcileOnce(t, req)
	for _, name := range []string{"train-master", "train-worker"} {
		s := w.readStatus(t, name)
		if s.Reason != gang.ReasonPolicyViolated || !strings.Contains(s.Message, "40 accelerators") {
			t.Errorf("%s has the status %+v, want PolicyViolated with 40 accelerators", name, s)
		}
	}
}

// TestUntilExemptionsExpire checks that the gangs are compared again after each day.
func TestUntilExemptionsExpire(t *testing.T) {
	w := newTestCluster(t)
	w.clock.SetTime(time.Date(2027, 3, 31, 23, 59, 0, 0, time.UTC))
	if got, want := w.untilExemptionsExpire(), time.Minute+time.Second; got != want {
		t.Errorf("untilExemptionsExpire() = %s, want %s", got, want)
	}
}

// TestPolicyOfCachedGang checks that a policy judges the fields that the cache does not contain, and that the
// workload is read from the API server only after its content or the policy changed.
func TestPolicyOfCachedGang(t *testing.T) {
	job := newGPUJob(t, "train", "", "", 4)
	job.Spec.Template.Spec.PriorityClassName = "low"
	w := newTestCluster(t, job)
	reader := &countingReader{Reader: w.APIReader}
	w.APIReader = reader
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
	) error {
		job, isJob := o.(*batchv1.Job)
		if err := c.Get(ctx, key, o, opts...); err != nil || !isJob {
			return err
		}
		cached, err := DigestWorkload(job.DeepCopy())
		*job = *cached.(*batchv1.Job)
		return err
	}})
	w.Policy = &testPolicies{policy: readPolicy(t,
		"cluster: {rules: [{name: priority, expression: "+
			"'object.spec.template.spec.?priorityClassName.orValue(\"\") == \"high\"'}]}")}
	w.reconcileOnce(t, trainJobRequest)
	if s := w.readStatus(t, "train"); s.Reason != gang.ReasonPolicyViolated {
		t.Fatalf("the status is %+v, want a violation of a field that the cache does not contain", s)
	}
	w.reconcileOnce(t, trainJobRequest) // the status changed
	reads := reader.reads
	var live batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, &live); err != nil {
		t.Fatal(err)
	}
	live.Status.Active = 4
	if err := w.Status().Update(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainJobRequest)
	if reader.reads != reads {
		t.Errorf("%d reads after a change of the status of the Job, want 0", reader.reads-reads)
	}
	live.Spec.Template.Spec.PriorityClassName = "high"
	if err := w.Update(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainJobRequest)
	if s := w.readStatus(t, "train"); s.Reason == gang.ReasonPolicyViolated || reader.reads != reads+1 {
		t.Errorf("after the field was corrected, %d reads and the status %+v; want 1 read", reader.reads-reads, s)
	}
}
