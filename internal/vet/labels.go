package vet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"rollcall.training/gang"
)

func labelChecks() []Check {
	return []Check{
		{
			Code: CodeLabelMisspelled, Severity: Warning, checkObject: checkLabelMisspelled,
			Title: "A label or annotation key is probably misspelled",
			Why: "A misspelled key has no effect. Without the exact label `" + gang.LabelFramework + "`, " +
				"the webhook does not receive the object, and nothing reports the mistake.",
			Fix: "Correct the spelling.",
		},
		{
			Code: CodeLabelMisplaced, Severity: Warning, checkObject: checkLabelMisplaced,
			Title: "The framework label is in a place where it has no effect",
			Why: "Rollcall reads only the labels of the Job or StatefulSet itself. " +
				"It reads neither the labels of the pod template nor annotations. " +
				"For a CronJob, it reads the labels of the Jobs that the CronJob creates.",
			Fix: "Move the label to `metadata.labels` of the Job or StatefulSet. " +
				"For a CronJob, move it to `spec.jobTemplate.metadata.labels`.",
		},
		{
			Code: CodeLabelMissing, Severity: Warning, checkObject: checkLabelMissing,
			Title: "A workload has keys of Rollcall, but no framework label",
			Why: "Without the label `" + gang.LabelFramework + "`, the workload is not a gang, " +
				"and its other labels and annotations of Rollcall have no effect.",
			Fix: "Add the label, or remove the other keys.",
		},
		{
			Code: CodeKindUnsupported, Severity: Warning, checkObject: checkKindUnsupported,
			Title: "The framework label is on a kind that cannot be a gang",
			Why:   "Rollcall supports Jobs (batch/v1) and StatefulSets (apps/v1). On other kinds the label has no effect.",
			Fix:   "Use a Job, or a StatefulSet for ranks that run indefinitely.",
		},
	}
}

// rollcallDomain is the domain of all keys of Rollcall.
var rollcallDomain = strings.TrimSuffix(gang.Prefix, "/")

// isWorkload reports whether the object has a kind that can be a gang, even if it cannot be
// decoded.
func (o *inputObject) isWorkload() bool { return o.workload != nil || o.decodeError != nil }

// isRollcallKey reports whether a name exists in the domain of Rollcall.
func isRollcallKey(name string) bool {
	return slices.ContainsFunc(gang.Keys(), func(k gang.Key) bool { return k.Name == gang.Prefix+name })
}

// suggestKey returns the key of Rollcall that a misspelled key was most likely meant to be. It
// returns false if the key is correct or is not similar to a key of Rollcall.
func suggestKey(key string, labeled bool) (string, bool) {
	const (
		maxNameDistance   = 2
		maxDomainDistance = 3 // rollcallDomain has 17 letters
	)
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", false
	}
	if domain == rollcallDomain {
		// The webhook warns about unknown keys of labeled workloads, so only the label that
		// selects a workload for the webhook is left.
		isSimilar := levenshtein.ComputeDistance(strings.ToLower(name), "framework") <= maxNameDistance
		return gang.LabelFramework, isSimilar && !labeled && !isRollcallKey(name)
	}
	isSimilar := levenshtein.ComputeDistance(strings.ToLower(domain), rollcallDomain) <= maxDomainDistance ||
		domain == "rollcall"
	return gang.Prefix + name, isSimilar && isRollcallKey(name)
}

func checkLabelMisspelled(_ *input, o *inputObject) []issue {
	if !o.isWorkload() {
		return nil
	}
	return append(
		findMisspelledKeys(o, "metadata.labels", o.target.Labels),
		findMisspelledKeys(o, "metadata.annotations", o.target.Annotations)...)
}

func findMisspelledKeys(o *inputObject, path string, values map[string]string) []issue {
	var issues []issue
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if suggestion, ok := suggestKey(key, o.target.HasFrameworkLabel()); ok {
			issues = append(issues, issue{
				field:   o.fieldPath(fmt.Sprintf("%s[%s]", path, key)),
				message: fmt.Sprintf("has no effect; did you mean %q?", suggestion),
			})
		}
	}
	return issues
}

func checkLabelMisplaced(_ *input, o *inputObject) []issue {
	const key = "[" + gang.LabelFramework + "]"
	switch {
	case !o.isWorkload() || o.target.HasFrameworkLabel():
		return nil
	case o.isCronJob && o.HasFrameworkLabel():
		return []issue{{
			field:   "metadata.labels" + key,
			message: "has no effect on a CronJob, because Rollcall reads the labels of its Jobs",
			fix:     "move it to spec.jobTemplate.metadata.labels",
		}}
	}
	if _, ok := o.target.Annotations[gang.LabelFramework]; ok {
		return []issue{{
			field:   o.fieldPath("metadata.annotations" + key),
			message: "has no effect as an annotation, because it must be a label",
			fix:     "move it to " + o.fieldPath("metadata.labels"),
		}}
	}
	if o.hasFrameworkLabelOnPodTemplate() {
		return []issue{{
			field:   o.fieldPath("spec.template.metadata.labels" + key),
			message: "has no effect on a pod template, because Rollcall reads the labels of the workload",
			fix:     "add it to " + o.fieldPath("metadata.labels"),
		}}
	}
	return nil
}

// hasFrameworkLabelOnPodTemplate reports whether the pod template has the framework label. It also
// works for a workload that cannot be decoded into the types of Kubernetes.
func (o *inputObject) hasFrameworkLabelOnPodTemplate() bool {
	var tree struct {
		Spec struct {
			Template struct {
				Metadata struct {
					Labels map[string]any `json:"labels"`
				} `json:"metadata"`
			} `json:"template"`
		} `json:"spec"`
	}
	if o.target.Decode(&tree) != nil {
		return false
	}
	_, ok := tree.Spec.Template.Metadata.Labels[gang.LabelFramework]
	return ok
}

func checkLabelMissing(in *input, o *inputObject) []issue {
	hasOptedOut := o.target.Labels[gang.LabelInject] == "false"
	if !o.isWorkload() || o.target.HasFrameworkLabel() || hasOptedOut {
		return nil
	}
	hasLabelFinding := len(checkLabelMisplaced(in, o)) > 0 || len(checkLabelMisspelled(in, o)) > 0
	if hasLabelFinding {
		return nil
	}
	for _, k := range gang.Keys() {
		path, values := "metadata.labels", o.target.Labels
		if k.Kind == gang.KeyKindAnnotation {
			path, values = "metadata.annotations", o.target.Annotations
		}
		if _, ok := values[k.Name]; ok && !gang.IsWrittenByRollcall(k.Name) {
			names := strings.Join(in.engine.Frameworks().Names(), ", ")
			return []issue{{
				field:   o.fieldPath(fmt.Sprintf("%s[%s]", path, k.Name)),
				message: "has no effect without the label " + gang.LabelFramework,
				fix:     "add the label with the name of the framework: " + names,
			}}
		}
	}
	return nil
}

// unsupportedKinds run pods and are often used for training, but cannot be a gang.
var unsupportedKinds = []string{
	"Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "JobSet", "PyTorchJob", "TFJob", "MPIJob",
	"XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "RayJob", "LeaderWorkerSet",
}

func checkKindUnsupported(_ *input, o *inputObject) []issue {
	if !o.HasFrameworkLabel() || o.isWorkload() {
		return nil
	}
	// A Job or StatefulSet that is not a workload has an unsupported API version.
	if slices.Contains([]string{string(gang.Job), string(gang.StatefulSet)}, o.Kind) {
		w, _ := gang.NewWorkload(gang.Kind(o.Kind))
		return []issue{{
			field:   "apiVersion",
			message: fmt.Sprintf("is %q, and Rollcall does not support a %s of this version", o.APIVersion, o.Kind),
			fix:     fmt.Sprintf("use %s/v1", w.GroupKind().Group),
		}}
	}
	if slices.Contains(unsupportedKinds, o.Kind) {
		return []issue{{
			field:   "metadata.labels[" + gang.LabelFramework + "]",
			message: "has no effect on a " + o.Kind,
			fix:     "use a Job, or a StatefulSet for ranks that run indefinitely",
		}}
	}
	return nil
}
