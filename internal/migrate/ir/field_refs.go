package ir

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/source"
)

// podMetadataPattern matches the downward API path of a label or an annotation.
var podMetadataPattern = regexp.MustCompile(`^metadata\.(labels|annotations)\[['"](.+)['"]\]$`)

// reportFieldRefs reports variables and files of one role that read what the new pods do not have: labels of the
// former system, and the former name of the pod.
func (b *Gang) reportFieldRefs(w *plannedWorkload, role Role) {
	visitFieldRefs(&w.Template.Spec, role.Source, func(path, reader string, field source.Field) {
		if path == "metadata.name" && role.SourceNames.Prefix != "" {
			field.AddNote(fmt.Sprintf("%s reads the name of the pod, which was %s and starts with %s-", reader,
				role.SourceNames.podName(0), w.workloadName), "use the rank for names that must survive a restart: $(ROLLCALL_RANK)")
		}
		match := podMetadataPattern.FindStringSubmatch(path)
		if match == nil {
			return
		}
		key, defined := match[2], w.Template.Labels
		if match[1] == "annotations" {
			defined = w.Template.Annotations
		}
		label, isFormer := b.SourceLabels[key]
		isSame := label.Preserved && (label.Meaning == MeaningGang || label.Meaning == MeaningRole && len(w.roles) == 1)
		if _, ok := defined[key]; ok || !isFormer || isSame {
			return
		}
		field.AddNoteWithOutcome(source.Dropped, "", reader+" reads the label "+key+
			", which the new pods do not have, or have with another value",
			"use the variables ROLLCALL_GANG, ROLLCALL_ROLE, ROLLCALL_RANK or ROLLCALL_ATTEMPT")
	})
}

// visitFieldRefs visits the fields of its own pod that a template reads, with the variable or file that reads
// them. Template is the place of the template in the manifest.
func visitFieldRefs(
	spec *corev1.PodSpec, template source.Field, visit func(path, reader string, field source.Field),
) {
	for _, c := range ListContainers(spec) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				visit(e.ValueFrom.FieldRef.FieldPath, "variable "+e.Name, FindEnvField(template, c.Name, e.Name))
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
				visit(item.FieldRef.FieldPath, fmt.Sprintf("file %s of volume %s", item.Path, volume.Name), field)
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
