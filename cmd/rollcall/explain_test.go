package main

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"rollcall.training/internal/lifecycle"
)

func TestExplainObject(t *testing.T) {
	edited := newAdmittedJob(t, 2, lifecycle.Running)
	edited.Spec.Template.Spec.Tolerations = nil
	plain := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: "team"}}
	client := fake.NewClientset(edited, plain)
	for name, c := range map[string]struct {
		object    string
		output    string
		want      []string // parts of the output, in order
		wantError string
	}{
		"a Job": {
			object: "job/train",
			want: []string{
				"job/train: worker of pytorch, 2 of 2 pods\n", "From pytorch:\n",
				"variable MASTER_PORT: 23456\n", "to change it: rollcall.training/port\n",
				"field completionMode: Indexed\n      each pod gets an index\n",
				"toleration node.kubernetes.io/not-ready:NoExecute\n", "; changed or removed since admission\n",
			},
		},
		"a kind in a form of kubectl": {object: "jobs.batch/train", want: []string{"job/train: worker"}},
		"JSON":                        {object: "job/train", output: outputJSON, want: []string{`"edited": true`}},
		"a Job that was not injected": {object: "job/plain", wantError: "job/plain in namespace team was not injected"},
		"a Job that does not exist":   {object: "job/other", wantError: `jobs.batch "other" not found`},
		"a StatefulSet that does not exist": {
			object: "sts/train", wantError: `statefulsets.apps "train" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := explainOptions{output: outputText}
			if c.output != "" {
				o.output = c.output
			}
			var out strings.Builder
			err := o.explainObject(t.Context(), client, "team", c.object, &out)
			if (err != nil) != (c.wantError != "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
				t.Fatalf("error %v, want %q", err, c.wantError)
			}
			if err != nil && exitCode(err) != 1 {
				t.Errorf("exit code %d, want 1", exitCode(err))
			}
			checkOrder(t, out.String(), c.want)
		})
	}
}
