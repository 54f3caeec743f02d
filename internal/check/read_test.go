package check

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// newFakeReader returns a reader of objects.
func newFakeReader(objects ...runtime.Object) (Reader, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	client.Resources = []*metav1.APIResourceList{{
		GroupVersion: "admissionregistration.k8s.io/v1",
		APIResources: []metav1.APIResource{{Kind: "ValidatingAdmissionPolicy"}},
	}}
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme) // never fails for a new scheme
	return Reader{
		Client: client, Metadata: metadatafake.NewSimpleMetadataClient(scheme),
		Version: "v0.2.0", Clock: clocktesting.NewFakeClock(testTime),
	}, client
}

// TestReadWithoutPermissions checks that nothing is an error if the API server denies all requests, and that
// each result with a permission names it.
func TestReadWithoutPermissions(t *testing.T) {
	reader, client := newFakeReader()
	reader.Namespace = "team"
	deny := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errForbidden }
	client.PrependReactor("*", "*", deny)
	reader.Metadata.(*metadatafake.FakeMetadataClient).PrependReactor("*", "*", deny)
	facts, err := reader.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Judge(facts).Results {
		switch {
		case r.Status == Error || r.Status == Warning:
			t.Errorf("%s has the status %s: %s", r.Code, r.Status, r.Message)
		case strings.Contains(r.Message, "cannot create resource") && r.Fix != "grant this permission":
			t.Errorf("%s has the fix %q", r.Code, r.Fix)
		}
	}
	if i := facts.Installation; i == nil || i.Admission.Namespace != "team" || i.Admission.Selected.Err == nil {
		t.Errorf("the installation is %+v, want a dry run in the namespace of the user", i)
	}
}

// TestReadParts checks which objects belong to the installation, and that the only writes are dry runs and
// questions about permissions.
func TestReadParts(t *testing.T) {
	foreign := newDeployment("webhook")
	foreign.Name, foreign.Namespace, foreign.Labels[labelChart] = "other", "other", "other-1.0.0"
	mutating, validating := newMutating(), newValidating()
	reader, client := newFakeReader(newDeployment("webhook", "--secret-name=rollcall-ca"),
		newDeployment("controller", "--lease-name=a", "--lease-name=b"), foreign, mutating, validating)
	facts, err := reader.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := facts.Installation
	if i == nil || i.Name != "rollcall" || i.Namespace != "rollcall-system" {
		t.Fatalf("the installation is %+v", i)
	}
	if i.Webhook.Value == nil || i.Controller.Value == nil || i.Mutating.Value == nil ||
		i.Validating.Value == nil || len(i.listWebhooks()) != len(ownWebhooks) {
		t.Errorf("parts are missing: %+v", i)
	}
	if value, ok := i.Controller.Flag("lease-name"); !ok || value != "b" {
		t.Errorf("the flag has the value %q, want the last", value)
	}
	for _, action := range client.Actions() {
		isReview := strings.HasSuffix(action.GetResource().Resource, "accessreviews")
		if slices.Contains([]string{"get", "list"}, action.GetVerb()) || isReview {
			continue
		}
		create, ok := action.(clienttesting.CreateActionImpl)
		if !ok || !slices.Equal(create.CreateOptions.DryRun, []string{metav1.DryRunAll}) {
			t.Errorf("the reader sent %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// TestReadSeveralReleases checks that the user has to choose one of two releases.
func TestReadSeveralReleases(t *testing.T) {
	second := newDeployment("webhook")
	second.Namespace, second.Labels[labelInstance] = "second", "second"
	reader, _ := newFakeReader(newDeployment("webhook"), second)
	facts, err := reader.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if facts.Installation != nil || len(facts.Releases.Value) != 2 {
		t.Errorf("the installation is %+v, and the releases are %v", facts.Installation, facts.Releases.Value)
	}
	reader.ReleaseNamespace = "second"
	facts, err = reader.Read(t.Context())
	if err != nil || facts.Installation == nil || facts.Installation.Name != "second" {
		t.Errorf("with a namespace, the installation is %+v and the error %v", facts.Installation, err)
	}
}
