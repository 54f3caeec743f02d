package scheduling_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/scheduling"
)

// TestTaskGroups checks which task groups and applications YuniKorn would ignore. An empty problem means none.
func TestTaskGroups(t *testing.T) {
	const valid = `[{"name": "worker", "minMember": 2, "minResource": {"cpu": "1", "memory": 1073741824}}]`
	withField := func(field string) string { return strings.Replace(valid, `"name"`, field+`, "name"`, 1) }
	for name, test := range map[string]struct {
		groups              string // valid if empty
		labels, annotations map[string]string
		problem             string
	}{
		"required fields are enough": {},
		"all fields of YuniKorn are allowed": {groups: withField(`"labels": {"a": "b"}, "annotations": {"a": "b"},
			"nodeSelector": {"gpu": "h100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
			"affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [{"maxSkew": 1}]`)},
		"the case of names does not matter, as in YuniKorn": {groups: withField(`"NodeSelector": {"gpu": "h100"}`)},
		"an unknown field is denied": {
			groups: withField(`"nodeSelectors": {"gpu": "h100"}`), problem: `unknown field "nodeSelectors"`,
		},
		"an unknown field of a toleration is denied": {
			groups: withField(`"tolerations": [{"keys": "gpu"}]`), problem: `unknown field "keys"`,
		},
		"a field of another type is denied": {
			groups: withField(`"tolerations": {"key": "gpu"}`), problem: "cannot unmarshal object",
		},
		"a quantity that takes hours is denied": {
			groups: strings.Replace(valid, `"1"`, `"1e-2147483647"`, 1), problem: "the exponent -2147483647 is not from",
		},
		"a resource without a value is denied": {groups: strings.Replace(valid, `"1"`, "null", 1), problem: "null"},
		"text after the list is denied":        {groups: valid + "]", problem: "there is text after the list"},
		"a group without resources is denied":  {groups: `[{"name": "worker", "minMember": 2}]`, problem: "minResource"},
		"a group of another size is denied":    {groups: strings.Replace(valid, "2", "3", 1), problem: "minMember 2"},
		"a task group of the user is allowed": {
			groups:      strings.Replace(valid, "worker", "mine", 1),
			annotations: map[string]string{"yunikorn.apache.org/task-group-name": "mine"},
		},
		"the label of the application is allowed": {labels: map[string]string{gang.LabelYuniKornApplication: "mine"}},
		"a label precedes an annotation, as in YuniKorn": {
			labels:      map[string]string{gang.LabelYuniKornApplication: "mine", "applicationId": "other"},
			annotations: map[string]string{gang.LabelYuniKornApplication: "other"},
		},
		"an annotation with the application is denied": {
			annotations: map[string]string{gang.LabelYuniKornApplication: "mine"},
			problem:     "remove the annotation yunikorn.apache.org/app-id",
		},
		"an old label with the application is denied": {
			labels: map[string]string{"applicationId": "mine"}, problem: "remove the label applicationId",
		},
		"the label of Spark is denied": {
			labels: map[string]string{"spark-app-selector": "mine"}, problem: "remove the label spark-app-selector",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			pod := &job.Spec.Template
			pod.Labels, pod.Annotations = test.labels, map[string]string{"yunikorn.apache.org/task-groups": valid}
			for key, value := range test.annotations {
				pod.Annotations[key] = value
			}
			if test.groups != "" {
				pod.Annotations["yunikorn.apache.org/task-groups"] = test.groups
			}
			g := gang.Gang{Role: "worker", Size: 2, Members: []gang.Member{{Role: "worker", Size: 2}}}
			got := scheduling.Find(gang.SchedulerYuniKorn).Check(gang.Workload{Job: job}, g)
			if (got != "") != (test.problem != "") || !strings.Contains(got, test.problem) {
				t.Errorf("the problem is %q, want %q", got, test.problem)
			}
		})
	}
}
