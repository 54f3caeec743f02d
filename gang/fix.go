package gang

import (
	"encoding/json"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/internal/fieldpath"
)

// Denial is a mistake of the user together with its remedy.
type Denial struct {
	*field.Error
	// Fix is the remedy that the message names. It has no operations if only the user can choose among
	// several remedies.
	Fix Fix
}

// Fix is a remedy as a JSON patch (RFC 6902) of the workload. Each patch is valid for the denied
// workload, and resolves only its own denial.
type Fix []jsonpatch.Operation

// Denials are the mistakes in one workload.
type Denials []Denial

// ErrorList returns the mistakes without their remedies.
func (ds Denials) ErrorList() field.ErrorList {
	var errs field.ErrorList
	for _, d := range ds {
		errs = append(errs, d.Error)
	}
	return errs
}

// Repair returns a copy of the denied workload with the remedies. It returns false if no denial has one.
func (ds Denials) Repair(w Workload) (Workload, bool) {
	var fixes Fix
	for _, d := range ds {
		fixes = append(fixes, d.Fix...)
	}
	if len(fixes) == 0 {
		return Workload{}, false
	}
	repaired, err := fixes.apply(w)
	return repaired, err == nil
}

// apply returns a patched copy of a workload.
func (f Fix) apply(w Workload) (Workload, error) {
	object, err := json.Marshal(w.Object())
	if err != nil {
		return Workload{}, err
	}
	if object, err = fieldpath.ApplyPatch(object, f); err != nil {
		return Workload{}, err
	}
	patched, _ := NewWorkload(w.Kind())
	return patched, json.Unmarshal(object, patched.Object())
}

// NewRemoveFix returns the fix that removes a field.
func NewRemoveFix(path *field.Path) Fix {
	return Fix{jsonpatch.NewOperation("remove", pointer(path), nil)}
}

// NewSetFix returns the fix that sets a field, whose parent must exist.
func NewSetFix(path *field.Path, value any) Fix {
	return Fix{jsonpatch.NewOperation("add", pointer(path), value)}
}

// NewAnnotationFix returns the fix that sets an annotation of the workload.
func NewAnnotationFix(w Workload, name, value string) Fix {
	if w.Meta().Annotations == nil {
		return NewSetFix(annotationsPath, map[string]string{name: value})
	}
	return NewSetFix(annotationsPath.Key(name), value)
}

func pointer(path *field.Path) string { return fieldpath.Pointer(fieldpath.Split(path.String())...) }
