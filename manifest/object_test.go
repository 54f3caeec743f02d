package manifest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/manifest/misfit"
)

const listed = `# a comment
---
# another
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata:
      name: train
  - apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
      namespace: team
      labels:
        rollcall.training/framework: pytorch
        odd: 1
    spec:
      paralellism: 2
      template:
        spec:
          containers:
            - name: trainer
              image: a
              env:
                - name: A
                  value: b
`

func object(t *testing.T, text string, i int) Object {
	t.Helper()
	docs, errs := ReadAll("a.yaml", strings.NewReader(text))
	var all []Object
	for _, d := range docs {
		all = append(all, d.Objects()...)
	}
	if len(errs) > 0 || i >= len(all) {
		t.Fatalf("%d objects, errors %v", len(all), errs)
	}
	return all[i]
}

func TestObjects(t *testing.T) {
	o := object(t, listed, 1)
	got := []string{o.Document.String(), o.APIVersion, o.Kind, o.Namespace, o.Name, o.Labels["rollcall.training/framework"]}
	want := []string{"a.yaml, document 2", "batch/v1", "Job", "team", "train", "pytorch"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := o.Labels["odd"]; ok {
		t.Error("a label that is no text was taken for one")
	}
}

func TestLines(t *testing.T) {
	for path, c := range map[string]struct {
		reason string
		want   int
	}{
		"":         {reason: "the object itself", want: 11},
		"metadata": {reason: "a field, by its key", want: 13},
		"metadata.labels[rollcall.training/framework]":  {reason: "a key with dots and a slash", want: 17},
		"spec.template.spec.containers[0].image":        {reason: "a field of an item", want: 25},
		"spec.template.spec.containers[trainer].image":  {reason: "an item by its name", want: 25},
		"spec.template.spec.containers[0].env[0].value": {reason: "an item of an item", want: 28},
		"spec.template.spec.containers[7].image":        {reason: "an item that is not there: its list", want: 23},
		"spec.parallelism":                              {reason: "a field that is not there: the one above", want: 19},
		"..[":                                           {reason: "no path at all", want: 11},
	} {
		if got := object(t, listed, 1).Line(path); got != c.want {
			t.Errorf("%s: line %d of %q, want %d", c.reason, got, path, c.want)
		}
	}
	if got := object(t, "{\"kind\": \"A\",\n \"a\": 1}\n{\"kind\": \"B\",\n \"b\": 1}\n", 1).Line("b"); got != 4 {
		t.Errorf("line %d of a field of JSON, want 4", got)
	}
}

func TestWorkloadOfObject(t *testing.T) {
	o := object(t, listed, 1)
	_, _, ok, err := o.Workload()
	if err == nil {
		t.Fatal("a label that is no text was read") // the API server refuses it too
	}
	var wrong *json.UnmarshalTypeError
	if !ok || !errors.As(err, &wrong) || wrong.Field != "metadata.labels" {
		t.Errorf("error %v, want one about metadata.labels", err)
	}
	o = object(t, strings.Replace(listed, "        odd: 1\n", "", 1), 1)
	w, unknown, ok, err := o.Workload()
	if err != nil || !ok || w.Meta().Name != "train" || !o.Labelled() {
		t.Errorf("%v %v, want a labelled workload", ok, err)
	}
	if diff := cmp.Diff([]string{"spec.paralellism"}, unknown); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
	if _, _, ok, _ := object(t, listed, 0).Workload(); ok {
		t.Error("a Service is a workload")
	}
}

func TestFieldAt(t *testing.T) {
	for wrong, want := range map[string]string{
		"name: trainer\n              image: a|name: trainer\n              image: 1": "spec.template.spec.containers[0].image",
		"value: b|value: 1":                          "spec.template.spec.containers[0].env[0].value",
		"value: b|value: {a: 1}":                     "spec.template.spec.containers[0].env[0].value",
		"value: b|value: [1]":                        "spec.template.spec.containers[0].env[0].value",
		"paralellism: 2|parallelism: two":            "spec.parallelism",
		"framework: pytorch|framework: 1":            "metadata.labels[rollcall.training/framework]",
		"name: A\n                  value: b|[name]": "spec.template.spec.containers[0].env[0]",
	} {
		before, after, _ := strings.Cut(wrong, "|")
		text := strings.Replace(listed, "        odd: 1\n", "", 1)
		if !strings.Contains(text, before) {
			t.Fatalf("%q is not in\n%s", before, text)
		}
		o := object(t, strings.Replace(text, before, after, 1), 1)
		_, _, _, err := o.Workload()
		var e *json.UnmarshalTypeError
		if !errors.As(err, &e) {
			t.Errorf("%q gave %v", after, err)
			continue
		}
		if got := misfit.FieldAt(o.Text, e.Offset); got != want {
			t.Errorf("%q: field %q, want %q (offset %d of %s)", after, got, want, e.Offset, o.Text)
		}
	}
	if got := misfit.FieldAt(object(t, listed, 0).Text, 1<<40); got != "" {
		t.Errorf("field %q beyond the end", got)
	}
}
