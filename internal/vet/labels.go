package vet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/source"
)

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

func checkLabelMisspelled(r *reporter, o *inputObject) {
	if !o.isWorkload() {
		return
	}
	r.checkKeys(o, "metadata.labels", o.target.Labels)
	r.checkKeys(o, "metadata.annotations", o.target.Annotations)
}

// checkKeys reports misspelled keys of labels or annotations.
func (r *reporter) checkKeys(o *inputObject, path string, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if suggestion, ok := suggestKey(key, o.target.HasFrameworkLabel()); ok {
			r.add(o.fieldPath(fmt.Sprintf("%s[%s]", path, key)), "", "has no effect; did you mean %q?", suggestion)
		}
	}
}

func checkLabelMisplaced(r *reporter, o *inputObject) {
	const key = "[" + gang.LabelFramework + "]"
	switch {
	case !o.isWorkload() || o.target.HasFrameworkLabel():
		return
	case o.isCronJob && o.HasFrameworkLabel():
		r.add("metadata.labels"+key, "move it to spec.jobTemplate.metadata.labels",
			"has no effect on a CronJob, because Rollcall reads the labels of its Jobs")
		return
	}
	if _, ok := o.target.Annotations[gang.LabelFramework]; ok {
		r.add(o.fieldPath("metadata.annotations"+key), "move it to "+o.fieldPath("metadata.labels"),
			"has no effect as an annotation, because it must be a label")
		return
	}
	// The workload may not fit the types of Kubernetes.
	labels, _ := manifest.ReadField(o.target.JSON, "spec.template.metadata.labels").(map[string]any)
	if _, ok := labels[gang.LabelFramework]; ok {
		r.add(o.fieldPath("spec.template.metadata.labels"+key), "add it to "+o.fieldPath("metadata.labels"),
			"has no effect on a pod template, because Rollcall reads the labels of the workload")
	}
}

func checkLabelMissing(r *reporter, o *inputObject) {
	hasOptedOut := o.target.Labels[gang.LabelInject] == "false"
	if !o.isWorkload() || o.target.HasFrameworkLabel() || hasOptedOut {
		return
	}
	if r.hasIssues(o, checkLabelMisplaced, checkLabelMisspelled) {
		return
	}
	for _, k := range gang.Keys() {
		path, values := "metadata.labels", o.target.Labels
		if k.Kind == gang.KeyKindAnnotation {
			path, values = "metadata.annotations", o.target.Annotations
		}
		if _, ok := values[k.Name]; ok && !gang.IsWrittenByRollcall(k.Name) {
			names := strings.Join(r.admission.Engine.Frameworks().Names(), ", ")
			r.add(o.fieldPath(fmt.Sprintf("%s[%s]", path, k.Name)), "add the label with the name of the framework: "+names,
				"has no effect without the label %s", gang.LabelFramework)
			return
		}
	}
}

// hasIssues reports whether one of other checks has a finding on an object.
func (r *reporter) hasIssues(o *inputObject, checks ...func(*reporter, *inputObject)) bool {
	other := &reporter{input: r.input}
	for _, check := range checks {
		check(other, o)
	}
	return len(other.findings) > 0
}

// checkLauncherWithoutLabel reports a workload of several pods whose launcher gets no ranks from Rollcall.
func checkLauncherWithoutLabel(r *reporter, o *inputObject) {
	if o.workload == nil || o.target.HasFrameworkLabel() || o.workload.OptedOut() || o.workload.Ranks() < 2 {
		return
	}
	pod := &o.workload.Template().Spec
	if r.hasIssues(o, checkLabelMisplaced, checkLabelMisspelled, checkLabelMissing) || r.startsOnePod(pod) {
		return
	}
	framework, launcher := detection.FindLauncher(r.admission.Engine.Frameworks(), pod)
	if launcher == "" {
		return
	}
	r.add(o.fieldPath("metadata.labels"), fmt.Sprintf("add the label %s: %s", gang.LabelFramework, framework.Name),
		"runs %s in %d pods, but without the label %s it is not a gang", launcher, o.workload.Ranks(), gang.LabelFramework)
}

// startsOnePod reports whether a torchrun of the pod says that the other pods do not belong to its training.
func (in *input) startsOnePod(pod *corev1.PodSpec) bool {
	for _, c := range pod.Containers {
		for _, l := range in.launchers.FindAll(command.Parse(c.Command, c.Args)) {
			flags, _ := l.Flags()
			if _, isStandalone := flags["standalone"]; isStandalone || flags["nnodes"].Text == "1" {
				return true
			}
		}
	}
	return false
}

// unsupportedKinds run pods and are often used for training, but cannot be a gang, and migrate does not convert them.
var unsupportedKinds = []string{
	"Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "RayJob", "LeaderWorkerSet",
}

func checkKindUnsupported(r *reporter, o *inputObject) {
	if !o.HasFrameworkLabel() || o.isWorkload() {
		return
	}
	// A Job or StatefulSet that is not a workload has an unsupported API version.
	if slices.Contains([]string{string(gang.Job), string(gang.StatefulSet)}, o.Kind) {
		w, _ := gang.NewWorkload(gang.Kind(o.Kind))
		r.add("apiVersion", fmt.Sprintf("use %s/v1", w.GroupKind().Group),
			"is %q, and Rollcall does not support a %s of this version", o.APIVersion, o.Kind)
		return
	}
	if slices.Contains(unsupportedKinds, o.Kind) || source.IsJobKind(o.APIGroup(), o.Kind) {
		r.add("metadata.labels["+gang.LabelFramework+"]", "use a Job, or a StatefulSet for ranks that run indefinitely",
			"%s", "has no effect on a "+o.Kind)
	}
}
