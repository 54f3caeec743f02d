package manifest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/manifest/typeerror"
)

const listManifest = `# a comment
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

// readObject returns the object with the given index in all documents of a manifest.
func readObject(t *testing.T, text string, index int) Object {
	t.Helper()
	docs, errs := ReadAll("a.yaml", strings.NewReader(text))
	objects := ListObjects(docs)
	if len(errs) > 0 || index >= len(objects) {
		t.Fatalf("%d objects and errors %v, want an object %d", len(objects), errs, index)
	}
	return objects[index]
}

func TestObjects(t *testing.T) {
	o := readObject(t, listManifest, 1)
	got := []string{
		o.Document.String(), o.APIVersion, o.Kind, o.Namespace, o.Name, o.Labels["rollcall.training/framework"],
	}
	want := []string{"a.yaml, document 2", "batch/v1", "Job", "team", "train", "pytorch"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if value, ok := o.Labels["odd"]; ok {
		t.Errorf("label odd is %q, want no label because the value is not a string", value)
	}
}

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		want int
	}{
		"an empty path is the object":               {path: "", want: 11},
		"a key":                                     {path: "metadata", want: 13},
		"a key with dots and a slash":               {path: "metadata.labels[rollcall.training/framework]", want: 17},
		"a field of an item":                        {path: "spec.template.spec.containers[0].image", want: 25},
		"a field of an item that is named":          {path: "spec.template.spec.containers[trainer].image", want: 25},
		"a field of an item of an item":             {path: "spec.template.spec.containers[0].env[0].value", want: 28},
		"a missing item has the line of its list":   {path: "spec.template.spec.containers[7].image", want: 23},
		"a missing field has the line of its owner": {path: "spec.parallelism", want: 19},
		"an invalid path is the object":             {path: "..[", want: 11},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readObject(t, listManifest, 1).Line(c.path); got != c.want {
				t.Errorf("Line(%q) = %d, want %d", c.path, got, c.want)
			}
		})
	}
	const jsonObjects = "{\"kind\": \"A\",\n \"a\": 1}\n{\"kind\": \"B\",\n \"b\": 1}\n"
	if got := readObject(t, jsonObjects, 1).Line("b"); got != 4 {
		t.Errorf("line %d of a field of the second JSON object, want 4", got)
	}
}

func TestDecodeWorkload(t *testing.T) {
	o := readObject(t, listManifest, 1)
	_, _, ok, err := o.DecodeWorkload()
	var typeErr *json.UnmarshalTypeError
	if !ok || !errors.As(err, &typeErr) || typeErr.Field != "metadata.labels" {
		t.Errorf("error %v for a label that is not a string, want an UnmarshalTypeError of metadata.labels", err)
	}
	o = readObject(t, strings.Replace(listManifest, "        odd: 1\n", "", 1), 1)
	w, unknown, ok, err := o.DecodeWorkload()
	if err != nil || !ok || w.Meta().Name != "train" || !o.HasFrameworkLabel() {
		t.Errorf("DecodeWorkload() = %t, %v; want a labeled workload", ok, err)
	}
	if diff := cmp.Diff([]string{"spec.paralellism"}, unknown); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
	if _, _, ok, _ := readObject(t, listManifest, 0).DecodeWorkload(); ok {
		t.Error("DecodeWorkload() of a Service returned a workload")
	}
}

func TestPathAtOffset(t *testing.T) {
	const (
		env   = "spec.template.spec.containers[0].env[0]"
		image = "spec.template.spec.containers[0].image"
	)
	valid := strings.Replace(listManifest, "        odd: 1\n", "", 1)
	for name, c := range map[string]struct {
		before, after string // the edit that makes listManifest invalid
		want          string
	}{
		"a number in an item": {
			before: "name: trainer\n              image: a",
			after:  "name: trainer\n              image: 1",
			want:   image,
		},
		"a number in an item of an item": {
			before: "value: b",
			after:  "value: 1",
			want:   env + ".value",
		},
		"a mapping instead of a string": {
			before: "value: b",
			after:  "value: {a: 1}",
			want:   env + ".value",
		},
		"a list instead of a string": {
			before: "value: b",
			after:  "value: [1]",
			want:   env + ".value",
		},
		"a string instead of a number": {
			before: "paralellism: 2",
			after:  "parallelism: two",
			want:   "spec.parallelism",
		},
		"a key with dots and a slash": {
			before: "framework: pytorch",
			after:  "framework: 1",
			want:   "metadata.labels[rollcall.training/framework]",
		},
		"a list instead of a mapping": {
			before: "name: A\n                  value: b",
			after:  "[name]",
			want:   env,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(valid, c.before) {
				t.Fatalf("the manifest does not contain %q", c.before)
			}
			o := readObject(t, strings.Replace(valid, c.before, c.after, 1), 1)
			_, _, _, err := o.DecodeWorkload()
			var typeErr *json.UnmarshalTypeError
			if !errors.As(err, &typeErr) {
				t.Fatalf("error %v, want an UnmarshalTypeError", err)
			}
			if got := typeerror.PathAtOffset(o.JSON, typeErr.Offset); got != c.want {
				t.Errorf("PathAtOffset(%d) = %q, want %q in %s", typeErr.Offset, got, c.want, o.JSON)
			}
		})
	}
	if got := typeerror.PathAtOffset(readObject(t, listManifest, 0).JSON, 1<<40); got != "" {
		t.Errorf("PathAtOffset() = %q for an offset beyond the text, want an empty path", got)
	}
}
