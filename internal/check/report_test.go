package check

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestJudgePrerequisites judges a cluster without an installation.
func TestJudgePrerequisites(t *testing.T) {
	for name, c := range map[string]struct {
		deny func(*authorizationv1.ResourceAttributes) bool
		want []string
	}{
		"an administrator can install": {deny: func(*authorizationv1.ResourceAttributes) bool { return false }},
		"an administrator without escalate can grant permissions that he has": {
			deny: func(p *authorizationv1.ResourceAttributes) bool { return p.Verb == "escalate" },
		},
		"a user cannot grant permissions that he does not have": {
			deny: func(p *authorizationv1.ResourceAttributes) bool {
				return p.Verb == "escalate" || p.Resource == "statefulsets" && p.Verb == "patch"
			},
			want: []string{"error InstallPermissions: the user must not patch statefulsets.apps, " +
				"patch statefulsets.apps/status | install with the ClusterRole cluster-admin, or grant these permissions"},
		},
		"a user needs permissions for webhook configurations": {
			deny: func(p *authorizationv1.ResourceAttributes) bool {
				return p.Resource == "mutatingwebhookconfigurations" && p.Verb == "create"
			},
			want: []string{"error InstallPermissions: the user must not create " +
				"mutatingwebhookconfigurations.admissionregistration.k8s.io | install with"},
		},
		"a user needs permissions in the namespace of the release": {
			deny: func(p *authorizationv1.ResourceAttributes) bool {
				return p.Resource == "deployments" && p.Verb == "create"
			},
			want: []string{"error InstallPermissions: the user must not create deployments.apps | install with"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t)
			f.Installation, f.Releases.Value, f.ChartObjects = nil, nil, nil
			reader, client := newFakeReader()
			client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object,
				error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
				review.Status.Allowed = !c.deny(review.Spec.ResourceAttributes)
				return true, review, nil
			})
			f.MissingPermissions = reader.readMissingPermissions(t.Context(), *f)
			report := Judge(*f)
			if got := formatProblems(report); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("the problems differ (-want +got):\n%s", cmp.Diff(c.want, got))
			}
			if report.Installed {
				t.Error("the report is about an installation")
			}
			f.ReleaseNamespace = "typo"
			const missing = "error Installation: no release is installed in the namespace typo | correct --release-namespace"
			if got := formatProblems(Judge(*f)); len(got) == 0 || !strings.HasPrefix(got[0], missing) {
				t.Errorf("with the namespace of a release, the problems are %q", got)
			}
			f.OnlyPrerequisites = true
			if got := formatProblems(Judge(*f)); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("with only the prerequisites, the problems are %q", got)
			}
		})
	}
}

var updateGolden = flag.Bool("update", false, "rewrite the golden file")

// TestPrint compares the text with a golden file.
func TestPrint(t *testing.T) {
	f := newFacts(t)
	f.Installation.ReadyEndpoints.Value = 0
	f.Installation.Lease = Observed[*coordinationv1.Lease]{Err: errForbidden}
	var out strings.Builder
	report := Judge(*f)
	if err := Print(&out, report); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.txt"
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("the text differs (-want +got):\n%s", diff)
	}
	for status, want := range map[Status]bool{Error: true, Warning: true, Unknown: true} {
		if report.Has(status) != want {
			t.Errorf("Has(%s) = %v", status, !want)
		}
	}
	if fine := Judge(*newFacts(t)); fine.Has(Unknown) {
		t.Error("a report without problems has a result that is unknown")
	}
	var codes []Code
	for _, r := range report.Results {
		codes = append(codes, r.Code)
	}
	isOfPrerequisites := func(c Code) bool { return c == "InstallPermissions" }
	if want := slices.DeleteFunc(Codes(), isOfPrerequisites); !slices.Equal(codes, want) {
		t.Errorf("the codes are %v, want %v", codes, want)
	}
}

// TestChooseNamespace checks the namespace of the dry runs.
func TestChooseNamespace(t *testing.T) {
	i := &Installation{Mutating: Observed[*admissionv1.MutatingWebhookConfiguration]{Value: newMutating()}}
	newNamespace := func(name string) corev1.Namespace {
		labels := map[string]string{corev1.LabelMetadataName: name}
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	all := []corev1.Namespace{newNamespace("kube-system"), newNamespace("team"), newNamespace("alpha")}
	for name, c := range map[string]struct {
		namespaces          []corev1.Namespace
		required, preferred string
		want                string
		wantSelected        bool
	}{
		"the namespace of the user":            {all, "team", "", "team", true},
		"an excluded namespace of the user":    {all, "kube-system", "", "kube-system", false},
		"a missing namespace of the user":      {all, "x", "", "x", false},
		"the preferred namespace":              {all, "", "team", "team", true},
		"another than the excluded preference": {all, "", "kube-system", "alpha", true},
		"no namespace":                         {all[:1], "", "team", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, selected := chooseNamespace(c.namespaces, i.namespaceSelector(), c.required, c.preferred)
			if got != c.want || selected != c.wantSelected {
				t.Errorf("chooseNamespace returned %q and %t, want %q and %t", got, selected, c.want, c.wantSelected)
			}
		})
	}
}
