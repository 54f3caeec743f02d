package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountKinds(t *testing.T) {
	const text = `{kind: List, items: [
  {kind: Service}, {kind: Job, apiVersion: batch/v1}, {kind: Service},
  {kind: Job, apiVersion: batch.volcano.sh/v1alpha1}, {kind: NetworkPolicy}, {kind: NetworkPolicy},
  {kind: Ingress}, {kind: Ingress}
]}`
	docs, err := Read("a.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range CountKinds(docs[0].Objects()) {
		got = append(got, c.String())
	}
	want := []string{"2 Ingresses", "1 Job", "1 Job of batch.volcano.sh", "2 NetworkPolicies", "2 Services"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
