package integration

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

const (
	unlabelPatch = `{"metadata":{"labels":{"rollcall.training/framework":null}}}`
	relabelPatch = `{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`
	// forgedRestart makes the controller resume a suspended workload.
	forgedRestart = `{"version":1,"phase":"Restarting","restarts":1,"internal":{"suspendedByRollcall":true}}`
)

func annotatePatch(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

// patchSet patches a StatefulSet as a user, and fails the test if the patch is denied.
func (m *manager) patchSet(t *testing.T, ns, name, patch string, subresources ...string) *appsv1.StatefulSet {
	t.Helper()
	set, err := m.Client.AppsV1().StatefulSets(ns).
		Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return set
}

// testAttackRelabeledJob removes the framework label of a Job, forges keys and would add the label again. The
// removal of the label must not make the keys unprotected.
func testAttackRelabeledJob(t *testing.T, m *manager, ns string) {
	jobs := m.Client.BatchV1().Jobs(ns)
	m.createJob(t, ns, newJob("train", 2))
	patch := func(patch string, options metav1.PatchOptions, subresources ...string) error {
		_, err := jobs.Patch(t.Context(), "train", types.MergePatchType, []byte(patch), options, subresources...)
		return err
	}
	if err := patch(unlabelPatch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	forged := annotatePatch(gang.AnnotationStatus, `{"version":1,"phase":"Failed"}`)
	send := func(text string, subresources ...string) attempt {
		return attempt{keysPolicy, func(context.Context) error { return patch(text, dryRunPatch, subresources...) }}
	}
	requireDenied(t, map[string]attempt{
		"status":                send(forged),
		"status in jobs/status": send(forged, "status"),
		"suspension":            send(annotatePatch(gang.AnnotationSuspendedBy, gang.SuspendedByRollcall)),
		"user suspension":       send(annotatePatch(gang.AnnotationSuspendedBy, gang.SuspendedByUser)),
		"record":                send(annotatePatch(gang.AnnotationInjected, `{"injector":"pytorch"}`)),
		"phase":                 send(`{"metadata":{"labels":{"rollcall.training/phase":"Failed"}}}`),
		"size":                  send(`{"metadata":{"labels":{"rollcall.training/size":"1"}}}`),
		"status and label together": send(`{"metadata":{"labels":{"rollcall.training/framework":"pytorch"},` +
			`"annotations":{"rollcall.training/status":"{}"}}}`),
	})
	if err := patch(relabelPatch, metav1.PatchOptions{}); err != nil {
		t.Errorf("the label cannot be added again: %v", err)
	}
}

// testAttackConfusedDeputy makes the controller scale a StatefulSet to a size that its user never set: the record
// comes from the manifest of a StatefulSet without replicas, admission rejects its real size, and a rank fails.
func testAttackConfusedDeputy(t *testing.T, m *manager, ns string) {
	set := newStatefulSet("train-worker", 0)
	set.Labels[gang.LabelGang], set.Labels[gang.LabelRole] = "train", "worker"
	set.Annotations = map[string]string{
		gang.AnnotationRoles:    "master=1,worker=200",
		gang.AnnotationInjected: `{"injector":"pytorch","replicas":200}`,
	}
	created := m.createStatefulSet(t, ns, set)
	if found := recordedSizePattern.FindString(created.Annotations[gang.AnnotationInjected]); found != "" {
		t.Errorf("the record of a StatefulSet without replicas contains %s", found)
	}
	patch := func(patch string) attempt {
		return attempt{keysPolicy, func(ctx context.Context) error {
			_, err := m.Client.AppsV1().StatefulSets(ns).
				Patch(ctx, "train-worker", types.MergePatchType, []byte(patch), dryRunPatch)
			return err
		}}
	}
	m.patchSet(t, ns, "train-worker", unlabelPatch)
	requireDenied(t, map[string]attempt{
		"record of an unlabeled StatefulSet": patch(annotatePatch(gang.AnnotationInjected, `{"replicas":200}`)),
		"status of an unlabeled StatefulSet": patch(annotatePatch(gang.AnnotationStatus, forgedRestart)),
	})
	m.patchSet(t, ns, "train-worker", relabelPatch)
	// The scale subresource accepts no annotations.
	m.patchSet(t, ns, "train-worker", `{"spec":{"replicas":1}}`, "scale")
	for range 20 {
		live := m.patchSet(t, ns, "train-worker", `{"metadata":{"annotations":{"example.com/look":"x"}}}`, "status")
		if replicas := ptr.Deref(live.Spec.Replicas, 1); replicas > 1 {
			t.Fatalf("the StatefulSet has %d replicas", replicas)
		}
	}
}

// testAttackNewWorkload creates workloads with keys that no webhook sees.
func testAttackNewWorkload(t *testing.T, m *manager, ns string) {
	create := func(labels, annotations map[string]string) attempt {
		return attempt{keysPolicy, func(ctx context.Context) error {
			job := newJob("train", 1)
			job.Labels, job.Annotations = labels, annotations
			_, err := m.Client.BatchV1().Jobs(ns).Create(ctx, job, dryRunCreate)
			return err
		}}
	}
	optedOut := map[string]string{gang.LabelFramework: "pytorch", gang.LabelInject: "false"}
	status := map[string]string{gang.AnnotationStatus: forgedRestart}
	record := map[string]string{gang.AnnotationInjected: `{"injector":"pytorch"}`}
	requireDenied(t, map[string]attempt{
		"status without label":     create(nil, status),
		"suspension without label": create(nil, map[string]string{gang.AnnotationSuspendedBy: gang.SuspendedByRollcall}),
		"record without label":     create(nil, record),
		"status and opted out":     create(optedOut, status),
		"record and opted out":     create(optedOut, record),
		"phase without label":      create(map[string]string{gang.LabelPhase: "Running"}, nil),
		"size without label":       create(map[string]string{gang.LabelSize: "1"}, nil),
		"accelerators and no gang": create(map[string]string{gang.LabelAccelerators: "0"}, nil),
	})
	t.Run("admission removes the keys of a copy", func(t *testing.T) {
		job := newJob("train", 1)
		job.Annotations = map[string]string{
			gang.AnnotationStatus: forgedRestart, gang.AnnotationSuspendedBy: gang.SuspendedByRollcall,
			gang.AnnotationInjected: `{"injector":"forged"}`}
		job.Labels[gang.LabelPhase] = string(lifecycle.Failed)
		out, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), job, dryRunCreate)
		if err != nil || out.Annotations[gang.AnnotationStatus] != "" ||
			out.Annotations[gang.AnnotationSuspendedBy] != "" || out.Labels[gang.LabelPhase] != "Pending" {
			t.Errorf("labels %v, annotations %v, error %v", out.Labels, out.Annotations, err)
		}
	})
}

// testAttackWithCredentials scales a StatefulSet with the credentials of the controller, after the same
// credentials have changed what limits the size.
func testAttackWithCredentials(t *testing.T, m *manager, ns string) {
	m.createStatefulSet(t, ns, newStatefulSet("ranks", 2))
	a := managerAttempts{
		kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName)), ns}
	requireDenied(t, map[string]attempt{
		"record in statefulsets/status": a.patchStatefulSet("ranks",
			annotatePatch(gang.AnnotationInjected, `{"aa":{"replicas":60},"replicas":2}`), "status"),
		"no record": a.patchStatefulSet("ranks",
			`{"metadata":{"annotations":{"rollcall.training/injected":null}}}`, "status"),
		"size":                  a.patchStatefulSet("ranks", `{"spec":{"replicas":60}}`),
		"profile of the policy": a.patchStatefulSet("ranks", annotatePatch(gang.AnnotationProfile, "large")),
	})
	t.Run("admission restores the record", func(t *testing.T) {
		before, err := m.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "ranks", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(annotatePatch(gang.AnnotationInjected, `{"replicas":60}`))
		after, err := a.client.AppsV1().StatefulSets(ns).
			Patch(t.Context(), "ranks", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil || after.Annotations[gang.AnnotationInjected] != before.Annotations[gang.AnnotationInjected] {
			t.Errorf("the record is %s (%v)", after.Annotations[gang.AnnotationInjected], err)
		}
	})
	t.Run("record and size together", func(t *testing.T) {
		patch := `{"metadata":{"annotations":{"rollcall.training/injected":"{\"replicas\":60}"}},"spec":{"replicas":60}}`
		if err := a.patchStatefulSet("ranks", patch).send(t.Context()); err == nil {
			t.Error("the request was permitted")
		}
	})
}

// testAttackUnseenStatefulSet changes StatefulSets that the webhooks of Rollcall skip: with the credentials of the
// controller one that opts out, and as a user one that is being deleted.
func testAttackUnseenStatefulSet(t *testing.T, m *manager, ns string) {
	m.createStatefulSet(t, ns, newStatefulSet("ranks", 2))
	m.createStatefulSet(t, ns, newStatefulSet("terminating", 2))
	a := managerAttempts{
		kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName)), ns}
	const (
		optOut   = `"labels":{"rollcall.training/inject":"false"}`
		podsGang = `"spec":{"template":{"metadata":{"labels":{"rollcall.training/gang":"victim"}}}}`
		podsSize = `"spec":{"template":{"spec":{"containers":[{"name":"trainer","image":"example.com/trainer:1"}]}}}`
		record   = `"annotations":{"rollcall.training/injected":"{\"injector\":\"forged\",\"replicas\":2}"}`
	)
	requireDenied(t, map[string]attempt{
		"record while opting out":         a.patchStatefulSet("ranks", `{"metadata":{`+optOut+`,`+record+`}}`),
		"gang of the pods and opting out": a.patchStatefulSet("ranks", `{"metadata":{`+optOut+`},`+podsGang+`}`),
		"template while opting out":       a.patchStatefulSet("ranks", `{"metadata":{`+optOut+`},`+podsSize+`}`),
	})
	t.Run("opting out is permitted", func(t *testing.T) {
		patch := []byte(`{"metadata":{` + optOut + `}}`)
		_, err := a.client.AppsV1().StatefulSets(ns).
			Patch(t.Context(), "ranks", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	})
	requireDenied(t, map[string]attempt{
		"record after opting out":           a.patchStatefulSet("ranks", `{"metadata":{`+record+`}}`),
		"gang of the pods after opting out": a.patchStatefulSet("ranks", `{`+podsGang+`}`),
	})

	m.patchSet(t, ns, "terminating", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	if err := m.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(patch string) attempt {
		return attempt{keysPolicy, func(ctx context.Context) error {
			_, err := m.Client.AppsV1().StatefulSets(ns).
				Patch(ctx, "terminating", types.MergePatchType, []byte(patch), dryRunPatch)
			return err
		}}
	}
	requireDenied(t, map[string]attempt{
		"record": patch(`{"metadata":{` + record + `}}`),
		"size":   patch(`{"metadata":{"labels":{"rollcall.training/size":"9"}}}`),
	})
	m.patchSet(t, ns, "terminating", `{"metadata":{"finalizers":null}}`)
}

// testAttackChildren creates the Service and the Secret of a gang before the gang, as somebody else than the
// controller.
func testAttackChildren(t *testing.T, m *manager, ns string) {
	const servicesKeyPolicy, secretsKeyPolicy = installation.Release + "-written-services",
		installation.Release + "-written-secrets"
	m.createJob(t, ns, newJob("train", 2))
	m.waitForService(t, ns, "train")
	services := m.Client.CoreV1().Services(ns)
	forged := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: "other"}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "other"}},
	}
	patch := func(name, patch string) attempt {
		return attempt{servicesKeyPolicy, func(ctx context.Context) error {
			_, err := services.Patch(ctx, name, types.MergePatchType, []byte(patch), dryRunPatch)
			return err
		}}
	}
	plain := forged.DeepCopy()
	plain.Name, plain.Labels = "plain", nil
	if _, err := services.Create(t.Context(), plain, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	requireDenied(t, map[string]attempt{
		"Service with the labels of a gang": {servicesKeyPolicy, func(ctx context.Context) error {
			_, err := services.Create(ctx, forged, dryRunCreate)
			return err
		}},
		"labels of an existing Service": patch("plain",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"rollcall","rollcall.training/gang":"other"}}}`),
		"owner of the Service of a gang": patch("train",
			`{"metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"x","uid":"x"}]}}`),
		"label of the Service of a gang": patch("train", `{"metadata":{"labels":{"rollcall.training/gang":"other"}}}`),
		"Secret of a key pair": {secretsKeyPolicy, func(ctx context.Context) error {
			_, err := m.Client.CoreV1().Secrets(ns).Create(ctx, newKeyPairSecret("later", "train", "x"), dryRunCreate)
			return err
		}},
	})
	for name, text := range map[string]string{
		"a label of the user": `{"metadata":{"labels":{"team":"a"}}}`,
		"no owners":           `{"metadata":{"ownerReferences":null}}`,
	} {
		t.Run(name+" is permitted", func(t *testing.T) {
			if err := patch("train", text).send(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// testLegitimateUpdates sends updates of users and tools that concern no protected key.
func testLegitimateUpdates(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	m.createStatefulSet(t, ns, newStatefulSet("ranks", 2))
	run := func(args ...string) {
		t.Helper()
		if out, err := m.Cluster.Kubectl(t.Context(), append([]string{"-n", ns}, args...)...); err != nil {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	for _, object := range []string{"job/train", "statefulset/ranks"} {
		run("label", object, "team=a")
		run("annotate", object, "rollcall.training/max-restarts=5")
		run("label", object, "rollcall.training/framework-")
		run("label", object, "team=b", "--overwrite")
		run("label", object, "rollcall.training/framework=pytorch")
		run("label", object, "rollcall.training/inject=false")
		run("annotate", object, "rollcall.training/max-restarts-")
		run("label", object, "rollcall.training/inject-")
		run("annotate", object, "rollcall.training/status-")
	}
	run("scale", "statefulset/ranks", "--replicas=3")
	wait.For(t, "the size in the record", func(ctx context.Context) error {
		set, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "ranks", metav1.GetOptions{})
		found := recordedSizePattern.FindString(set.Annotations[gang.AnnotationInjected])
		if err == nil && found != `"replicas":3` {
			err = fmt.Errorf("it is %s", found)
		}
		return err
	})
	run("delete", "job/train", "statefulset/ranks", "--cascade=foreground")
}

// testAttackRecordedPolicy replaces the last valid policy with the credentials of the controller.
func testAttackRecordedPolicy(t *testing.T, m *manager, _ string) {
	maps := kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName)).
		CoreV1().ConfigMaps(installation.Namespace)
	patch := func(name, patch string) attempt {
		return attempt{recordedPolicy, func(ctx context.Context) error {
			_, err := maps.Patch(ctx, name, types.MergePatchType, []byte(patch), dryRunPatch)
			return err
		}}
	}
	const accepted = policyName + "-accepted"
	requireDenied(t, map[string]attempt{
		"another policy": patch(accepted,
			`{"data":{"policy.yaml":"apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n"}}`),
		"no policy":   patch(accepted, `{"data":null}`),
		"immutable":   patch(accepted, `{"immutable":true}`),
		"a finalizer": patch(accepted, `{"metadata":{"finalizers":["example.com/x"]}}`),
	})
}
