package vet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"rollcall.training/gang"
)

func ofLabels() []Check {
	return []Check{
		{
			Code: CodeLabelMisspelt, Severity: Warning, object: labelMisspelt,
			Title: "A label or annotation is nearly one of Rollcall's",
			Why:   "A key that is not Rollcall's own to the letter is nobody's: without the label `" + gang.LabelFramework + "` the object never reaches the webhook, and nothing complains.",
			Fix:   "Mend its spelling.",
		},
		{
			Code: CodeLabelMisplaced, Severity: Warning, object: labelMisplaced,
			Title: "The label of a gang stands where it has no effect",
			Why:   "Rollcall reads the labels of the Job or StatefulSet itself: not those of its pod template, not annotations, and of a CronJob those of the Jobs that it makes.",
			Fix:   "Move it to `metadata.labels` of the Job or StatefulSet; of a CronJob, to `spec.jobTemplate.metadata.labels`.",
		},
		{
			Code: CodeLabelMissing, Severity: Warning, object: labelMissing,
			Title: "A workload has Rollcall's annotations, and not its label",
			Why:   "Without the label `" + gang.LabelFramework + "` it is no gang, and none of the annotations has an effect.",
			Fix:   "Add the label, or take the annotations away.",
		},
		{
			Code: CodeKindUnsupported, Severity: Warning, object: kindUnsupported,
			Title: "The label of a gang is on a kind that cannot be one",
			Why:   "Rollcall makes gangs of Jobs (batch/v1) and StatefulSets (apps/v1). On other kinds the label has no effect.",
			Fix:   "Use a Job, or a StatefulSet for ranks that never end.",
		},
	}
}

// domain is that of Rollcall's own keys.
var domain = strings.TrimSuffix(gang.Prefix, "/")

// isWorkload reports whether the object is of a kind that can be a gang.
func (s *subject) isWorkload() bool { return s.written != nil || s.unread != nil }

// misspelt returns Rollcall's own key that one under another domain, or another name,
// was most likely meant to be.
func misspelt(key string, labelled bool) (string, bool) {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", false
	}
	known := func(name string) bool {
		return slices.ContainsFunc(gang.Keys(), func(k gang.Key) bool { return k.Name == gang.Prefix+name })
	}
	if prefix == domain {
		// Of a labelled workload the webhook says this itself.
		near := !labelled && !known(name) && levenshtein.ComputeDistance(strings.ToLower(name), "framework") <= 2
		return gang.LabelFramework, near
	}
	// Three slips in seventeen letters; rollcall alone is short for it, or another's.
	near := levenshtein.ComputeDistance(strings.ToLower(prefix), domain) <= 3 || prefix == "rollcall"
	return gang.Prefix + name, near && known(name)
}

func labelMisspelt(_ *input, s *subject) []remark {
	if !s.isWorkload() {
		return nil
	}
	var out []remark
	look := func(path string, keys map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if want, ok := misspelt(key, s.read.Labelled()); ok {
				out = append(out, say(fmt.Sprintf("%s[%s]", path, key), "has no effect; did you mean %q?", want).do("")...)
			}
		}
	}
	look("metadata.labels", s.read.Labels)
	look("metadata.annotations", s.read.Annotations)
	return out
}

func labelMisplaced(_ *input, s *subject) []remark {
	key := "[" + gang.LabelFramework + "]"
	switch {
	case !s.isWorkload() || s.read.Labelled():
		return nil
	case s.cron && s.Labelled():
		r := say("metadata.labels"+key, "has no effect on a CronJob")
		r.own = true
		return r.do("move it to spec.jobTemplate.metadata.labels")
	}
	if _, ok := s.read.Annotations[gang.LabelFramework]; ok {
		return say("metadata.annotations"+key, "has no effect: it is read as a label").do("move it to %s", s.path("metadata.labels"))
	}
	var tree struct {
		Spec struct {
			Template struct {
				Metadata struct {
					Labels map[string]any `json:"labels"`
				} `json:"metadata"`
			} `json:"template"`
		} `json:"spec"`
	}
	if s.read.Decode(&tree) != nil {
		return nil
	}
	if _, ok := tree.Spec.Template.Metadata.Labels[gang.LabelFramework]; ok {
		return say("spec.template.metadata.labels"+key, "has no effect on a pod template").do("add it to %s", s.path("metadata.labels"))
	}
	return nil
}

func labelMissing(in *input, s *subject) []remark {
	if !s.isWorkload() || s.read.Labelled() || s.read.Labels[gang.LabelInject] == "false" ||
		len(labelMisplaced(in, s)) > 0 || len(labelMisspelt(in, s)) > 0 {
		return nil // said already
	}
	for _, k := range gang.Keys() {
		path, have := "metadata.labels", s.read.Labels
		if k.Kind == gang.KindAnnotation {
			path, have = "metadata.annotations", s.read.Annotations
		}
		if _, ok := have[k.Name]; ok && !gang.WrittenBack(k.Name) {
			return say(fmt.Sprintf("%s[%s]", path, k.Name), "has no effect without the label %s", gang.LabelFramework).
				do("add the label, with the name of the framework: %s", strings.Join(in.engine.Frameworks().Names(), ", "))
		}
	}
	return nil
}

// otherKinds run pods too, and are what people use in a gang's place.
var otherKinds = []string{"Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "JobSet", "PyTorchJob", "TFJob", "MPIJob",
	"XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "RayJob", "LeaderWorkerSet"}

func kindUnsupported(_ *input, s *subject) []remark {
	if !s.Labelled() || s.isWorkload() {
		return nil
	}
	field := "metadata.labels[" + gang.LabelFramework + "]"
	if slices.Contains([]string{string(gang.Job), string(gang.StatefulSet)}, s.Kind) {
		w, _ := gang.NewWorkload(gang.Kind(s.Kind))
		return say("apiVersion", "%q has no %s that can be a gang", s.APIVersion, s.Kind).do("write %s/v1", w.GroupKind().Group)
	}
	if slices.Contains(otherKinds, s.Kind) {
		return say(field, "has no effect on a %s", s.Kind).do("use a Job, or a StatefulSet for ranks that never end")
	}
	return nil
}
