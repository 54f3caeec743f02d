package injectors_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/testing/golden"
)

// TestRecordIsComplete checks that the record of each golden case contains exactly what the injection added. The
// golden files do not contain the record.
func TestRecordIsComplete(t *testing.T) {
	for _, c := range golden.Cases(t) {
		before := golden.ParseWorkload(t, c.Manifest)
		if before.IsInjected() {
			continue // contains injected values
		}
		after := before.DeepCopy()
		result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(after)
		if err != nil || result.Reason != gang.ReasonInjected {
			continue // is denied, or is not a gang
		}
		t.Run(c.Name, func(t *testing.T) {
			record, err := injection.ReadRecord(after)
			if err != nil || record == nil {
				t.Fatalf("the record is %v: %v", record, err)
			}
			if !record.IsUnmodified(after) {
				t.Errorf("the record has other digests than the values: %v", record.Values)
			}
			want := listAdditions(before, after)
			got := slices.DeleteFunc(slices.Collect(maps.Keys(record.Values)), func(key string) bool { return !want[key] })
			if len(got) != len(want) {
				t.Errorf("the record has %d of the %d values that were added: %v, want %v", len(got), len(want), got, want)
			}
		})
	}
}

// listAdditions returns the keys of the variables, mounts, labels, volumes and init containers that an injection
// added.
func listAdditions(before, after gang.Workload) map[string]bool {
	had := listValues(before.Template())
	added := map[string]bool{}
	for key := range listValues(after.Template()) {
		if !had[key] {
			added[key] = true
		}
	}
	return added
}

func listValues(template *corev1.PodTemplateSpec) map[string]bool {
	values := map[string]bool{}
	for label := range template.Labels {
		values["label/"+label] = true
	}
	for i := range template.Spec.Volumes {
		values["volume/"+template.Spec.Volumes[i].Name] = true
	}
	for i := range template.Spec.InitContainers {
		values["initContainer/"+template.Spec.InitContainers[i].Name] = true
	}
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		for _, e := range c.Env {
			values["env/"+c.Name+"/"+e.Name] = true
		}
		for _, m := range c.VolumeMounts {
			values["mount/"+c.Name+"/"+m.MountPath] = true
		}
	}
	return values
}
