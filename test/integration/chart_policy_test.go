package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"rollcall.training/gang"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/policy"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// unmanagedKey is the label of the namespaces that the chart of [TestChartPolicy] does not manage.
const unmanagedKey = "unmanaged"

// TestChartPolicy installs the chart with a policy about unlabeled workloads, with a certificate that somebody
// else writes, and for some namespaces only. The webhook is ready only if it can read the policy.
func TestChartPolicy(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	folder := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &manager{installation.NewWithCertificate(t, c, folder, []string{
		"--values", writeUnlabeledValues(t, policy.ModeEnforce),
		"--set=certificates.mode=secret,certificates.secretName=tls",
		"--set-file=certificates.caBundle=" + filepath.Join(folder, corev1.TLSCertKey),
		"--set=webhook.namespaceSelector.matchExpressions[0].key=" + unmanagedKey +
			",webhook.namespaceSelector.matchExpressions[0].operator=DoesNotExist",
	})}
	t.Run("Detach", func(t *testing.T) { testDetachWithOptOutPolicy(t, m, m.createNamespace(t)) })
	t.Run("Namespaces", func(t *testing.T) { testUnlabeledInNamespaces(t, m, m.createNamespace(t)) })
}

// testDetachWithOptOutPolicy detaches a gang, although its user must not opt out.
func testDetachWithOptOutPolicy(t *testing.T, m *manager, ns string) {
	r := &testGang{manager: m, t: t, ns: ns, jobs: []string{"train"}}
	m.createJob(t, ns, newJob("train", 2))
	requireVerdict(t, optOutPolicy, func(ctx context.Context) error {
		patch := []byte(`{"metadata":{"labels":{"` + gang.LabelInject + `":"false"}}}`)
		_, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "train", types.MergePatchType, patch, dryRunPatch)
		return err
	})
	results := r.runDetach()
	if len(results) != 1 || results[0].Outcome != detach.Detached {
		t.Errorf("the results are %v", results)
	}
	if got := r.getJob("train").Labels[gang.LabelInject]; got != "false" {
		t.Errorf("the label %s is %q", gang.LabelInject, got)
	}
}

// testUnlabeledInNamespaces creates unlabeled workloads in namespaces that Rollcall manages and does not manage.
func testUnlabeledInNamespaces(t *testing.T, m *manager, managed string) {
	create := func(ns string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := m.Client.BatchV1().Jobs(ns).Create(ctx, newUnlabeledJob(), dryRunCreate)
			return err
		}
	}
	requireVerdict(t, jobPolicy, create(managed))
	unmanaged := m.createNamespace(t, unmanagedKey)
	for _, ns := range []string{unmanaged, installation.Namespace} {
		requireVerdict(t, noPolicy, create(ns))
	}
	t.Run("a labeled Job becomes a gang", func(t *testing.T) {
		job, err := m.Client.BatchV1().Jobs(managed).Create(t.Context(),
			newUnlabeledJob(func(j *batchv1.Job) { j.Labels = newJob("train", 2).Labels }), dryRunCreate)
		if err != nil || job.Annotations[gang.AnnotationInjected] == "" {
			t.Errorf("the annotations are %v (%v)", job.Annotations, err)
		}
	})
}
