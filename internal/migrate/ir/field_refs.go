package ir

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// podMetadataPattern matches the downward API path of a label or an annotation.
var podMetadataPattern = regexp.MustCompile(`^metadata\.(labels|annotations)\[['"](.+)['"]\]$`)

// fieldRef is a variable, or a file of a downward API volume, that reads a field of its own pod.
type fieldRef struct {
	selector *corev1.ObjectFieldSelector
	// env is the variable; nil for a file.
	env *corev1.EnvVar
	// reader names the variable or file in reports.
	reader string
	field  source.Field
}

// note records an outcome of the reference.
func (r fieldRef) note(outcome source.Outcome, to, reason, action string) {
	r.field.AddNoteWithOutcome(outcome, to, r.reader+" "+reason, action)
}

// setValue replaces the reference of a variable by the value that it had.
func (r fieldRef) setValue(value, key string) {
	r.env.Value, r.env.ValueFrom = value, nil
	r.note(source.Changed, value,
		"read the label "+key+", which the new pods do not have; it now has the former value", "")
}

// reportEmpty records that the reference has no value in the new pods.
func (r fieldRef) reportEmpty(key string) {
	r.note(source.Dropped, "", "is empty, because the new pods do not have the label "+key,
		"use the variables ROLLCALL_GANG, ROLLCALL_ROLE, ROLLCALL_RANK or ROLLCALL_ATTEMPT")
}

// rewriteFieldRefs rewrites downward API fields of one role that read labels of the former system.
// It rewrites the name of the gang, the role and the index, and reports all others.
func (b *Gang) rewriteFieldRefs(w *plannedWorkload, role Role) {
	visitFieldRefs(&w.Template.Spec, role.Source, func(ref fieldRef) {
		if ref.selector.FieldPath == "metadata.name" {
			reportPodName(ref, w, role)
			return
		}
		match := podMetadataPattern.FindStringSubmatch(ref.selector.FieldPath)
		if match == nil {
			return
		}
		key, defined := match[2], w.Template.Labels
		if match[1] == "annotations" {
			defined = w.Template.Annotations
		}
		if _, ok := defined[key]; ok {
			return
		}
		b.rewriteLabelRef(ref, w, role, key)
	})
}

// rewriteLabelRef rewrites a reference to a label that the template does not define.
func (b *Gang) rewriteLabelRef(ref fieldRef, w *plannedWorkload, role Role, key string) {
	found, known := b.SourceLabels[key]
	switch {
	case role.SourceNames.IndexField == "metadata.labels['"+key+"']":
		rewriteIndex(ref, w, key)
	case !known || found.Preserved && found.Meaning == MeaningGang:
	case found.Meaning == MeaningGang && ref.env != nil:
		ref.setValue(b.Name, key)
	case found.Meaning == MeaningGang:
		ref.selector.FieldPath = "metadata.labels['" + gang.LabelGang + "']"
		ref.note(source.Changed, ref.selector.FieldPath, "read the label "+key+", which the new pods do not have", "")
	case found.Meaning == MeaningRole:
		b.rewriteRole(ref, w, role, key)
	case found.Preserved && !w.StatefulSet: // the name of the Job
		ref.note(source.Changed, w.workloadName,
			"reads the label "+key+", which contains the name of the new workload", "")
	default:
		ref.reportEmpty(key)
	}
}

// rewriteIndex makes the reference read the index of the pod in its workload.
func rewriteIndex(ref fieldRef, w *plannedWorkload, key string) {
	reason, action := "read the label "+key+", which the new pods do not have", ""
	if len(w.roles) > 1 {
		reason += "; the new index counts the pods of all roles"
		action = "check if the program needs the index within the role"
	}
	ref.selector.FieldPath = "metadata.labels['" + w.indexLabel() + "']"
	ref.note(source.Changed, ref.selector.FieldPath, reason, action)
}

func (b *Gang) rewriteRole(ref fieldRef, w *plannedWorkload, role Role, key string) {
	preserved, former := b.SourceLabels[key].Preserved, role.SourceNames.Role
	switch {
	case len(w.roles) > 1 && preserved:
		ref.note(source.Changed, "", "reads the label "+key+", which has the same value in all pods of the workload",
			"distinguish the roles by the rank: $(ROLLCALL_RANK)")
	case preserved && b.roleLabelValue(w) == former:
	case len(w.roles) > 1 || former == "" || ref.env == nil:
		ref.reportEmpty(key)
	default:
		ref.setValue(former, key)
	}
}

// reportPodName reports a reference to the name of the pod, which is different after the migration.
func reportPodName(ref fieldRef, w *plannedWorkload, role Role) {
	if role.SourceNames.Prefix == "" {
		return
	}
	name := w.workloadName + "-<index>"
	if !w.StatefulSet {
		name += "-<random>, different after each restart"
	}
	ref.note(source.Changed, "metadata.name", fmt.Sprintf("reads the name of the pod, which was %s and is %s",
		role.SourceNames.podName(0), name), "use the rank for names that must survive a restart: $(ROLLCALL_RANK)")
}

// visitFieldRefs visits the fields of its own pod that a template reads. Template is the place of
// the template in the manifest.
func visitFieldRefs(spec *corev1.PodSpec, template source.Field, visit func(fieldRef)) {
	for _, c := range ListContainers(spec) {
		for i := range c.Env {
			if e := &c.Env[i]; e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				visit(fieldRef{e.ValueFrom.FieldRef, e, "variable " + e.Name, FindEnvField(template, c.Name, e.Name)})
			}
		}
	}
	for i, volume := range spec.Volumes {
		if volume.DownwardAPI == nil {
			continue
		}
		field := template.At("spec", "volumes").Item(i)
		if !field.Exists() { // the reader added the volume
			field = template
		}
		for _, item := range volume.DownwardAPI.Items {
			if item.FieldRef != nil {
				visit(fieldRef{item.FieldRef, nil, fmt.Sprintf("file %s of volume %s", item.Path, volume.Name), field})
			}
		}
	}
}

// FindEnvField returns the place of a variable of a container, or the template if the template does not have
// it.
func FindEnvField(template source.Field, container, name string) source.Field {
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range template.At("spec", list).Items() {
			if c.Get("name").String() != container {
				continue
			}
			for _, e := range c.Get("env").Items() {
				if e.Get("name").String() == name {
					return e
				}
			}
		}
	}
	return template
}
