package ir

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/text"
)

// ListContainers returns the init containers and the containers of a pod.
func ListContainers(spec *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// FindContainer returns the index of the container with the given name, or -1.
func FindContainer(spec *corev1.PodSpec, name string) int {
	return slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

// ReportJoinedPods reports a torchrun without a number of nodes. Its default is one node, so each pod
// trained separately, and Rollcall sets PET_NNODES to the number of pods.
func ReportJoinedPods(framework gang.Framework, spec *corev1.PodSpec, template source.Field, pods int32) {
	if !framework.HasTorchrunVars || framework.HasLauncher {
		return
	}
	launchers := gang.Frameworks{framework}.Launchers()
	scanner := launchers.NewScanner()
	readsVariables := func(name string) bool {
		return slices.ContainsFunc(launchers, func(l command.LauncherProgram) bool {
			return l.Name == name && l.ReadsVariables
		})
	}
	for _, c := range ListContainers(spec) {
		setsNodes := len(command.ScanFlags(CommandWords(c), "nnodes standalone")) > 0 ||
			slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "PET_NNODES" })
		if pods > 1 && readsVariables(scanner.Scan(CommandWords(c))) && !setsNodes {
			template.AddNote(fmt.Sprintf("torchrun has no --nnodes, so each of the %d pods trained separately; "+
				"Rollcall sets PET_NNODES, and all pods train together", pods),
				"add --standalone to the command if the pods must train separately")
			return
		}
	}
}

// hostnameRead matches the ways in which shells and Python read the hostname of the pod.
var hostnameRead = regexp.MustCompile(
	"[$]\\(\\s*hostname\\b[^)]*\\)|`hostname\\b|\\bhostname\\s*[|>]|[$]\\{?HOSTNAME\\b|[$]\\(HOSTNAME\\)" +
		`|/etc/hostname\b|\bgethostname\b|\buname -n\b|\bplatform\.node\b`)

// ReportHostnameReads reports that a program reads the hostname of its pod, which the migration changes.
// It looks at the containers and at further texts, such as mounted scripts.
func ReportHostnameReads(spec *corev1.PodSpec, texts []string, template source.Field, former, now string) {
	found := cmp.Or(FindInTexts(hostnameRead, ListContainers(spec)...), hostnameRead.FindString(strings.Join(texts, "\n")))
	if found != "" {
		template.AddNote(fmt.Sprintf("a text reads the hostname of the pod with %q, which was %s and is %s",
			strings.TrimSpace(found), former, now),
			"check what the program does with the name; the rank is in ROLLCALL_RANK")
	}
}

// Inject returns what Rollcall injects into a role, for the roles that b has so far.
func (b *Gang) Inject(context source.Context, role *Role) source.Injection {
	pods := map[string]int32{}
	for _, r := range b.Roles {
		pods[r.Name] = r.Pods
	}
	annotations := MergeMaps(b.RollcallAnnotations, role.RollcallAnnotations)
	return b.InjectTemplate(context, role.Name, pods, annotations, role.Template)
}

// InjectTemplate returns what Rollcall injects into a Job with the template of a role. The gang has the
// given numbers of pods by role.
func (b *Gang) InjectTemplate(
	context source.Context, role string, pods map[string]int32, annotations map[string]string,
	template corev1.PodTemplateSpec,
) source.Injection {
	if context.Inject == nil {
		return source.Injection{}
	}
	meta := metav1.ObjectMeta{
		Name: b.Name, Namespace: b.Namespace,
		Labels: map[string]string{gang.LabelFramework: b.Framework}, Annotations: maps.Clone(annotations),
	}
	if len(pods) > 1 {
		sizes := make([]string, 0, len(pods))
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			sizes = append(sizes, fmt.Sprintf("%s=%d", name, pods[name]))
		}
		meta.Name += "-" + role
		meta.Labels[gang.LabelRole] = role
		metav1.SetMetaDataAnnotation(&meta, gang.AnnotationRoles, strings.Join(sizes, ","))
	}
	return context.Inject(gang.Workload{Job: &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(pods[role]), Completions: ptr.To(pods[role]),
		CompletionMode: ptr.To(batchv1.IndexedCompletion), Template: template,
	}}})
}

// TrainingContainers returns the containers that get Rollcall's variables: the named ones, and all init containers.
func TrainingContainers(pod *corev1.PodSpec, names []string) []*corev1.Container {
	return slices.DeleteFunc(ListContainers(pod), func(c *corev1.Container) bool {
		return FindContainer(pod, c.Name) >= 0 && !slices.Contains(names, c.Name)
	})
}

// RemoveOverwrittenVars removes variables that the former system overwrote in a container. They had no
// effect before, and would have one after the migration.
func RemoveOverwrittenVars(c *corev1.Container, names []string, field func(container, name string) source.Field) {
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
		isOverwritten := slices.Contains(names, e.Name)
		if isOverwritten {
			field(c.Name, e.Name).AddNote("left out: the former system overwrote "+e.Name+", so this value had no effect",
				"set it again on the new workload if the value is intended")
		}
		return isOverwritten
	})
}

// RemoveInjectedVars removes the variables that Rollcall sets. Those whose value has the meaning of the
// injected one are preserved, and the others are changed. The function field returns the place of a variable.
func RemoveInjectedVars(
	containers []*corev1.Container, injection source.Injection, field func(container, name string) source.Field,
) {
	for _, c := range containers {
		c.Env = slices.DeleteFunc(c.Env, func(before corev1.EnvVar) bool {
			now, ok := injection.FindRequired(before.Name)
			if !ok {
				return false
			}
			outcome, reason := source.Preserved, ""
			if injection.Conflicts[c.Name+"/"+before.Name] {
				outcome, reason = source.Changed, before.Name+" had a value that is not known before the pod runs, or that differs"
				if before.Value != "" && now.Value != "" {
					reason = fmt.Sprintf("%s was %q; for this gang it is %q", before.Name, before.Value, text.Shorten(now.Value, 100))
				}
			}
			field(c.Name, before.Name).AddNoteWithOutcome(outcome, "set by Rollcall", reason, "")
			return true
		})
	}
}

// TrainingContainer returns the index of the first training container of a role.
func (b *Gang) TrainingContainer(context source.Context, role *Role) int {
	chosen := b.Inject(context, role).TrainingContainers
	return max(0, slices.IndexFunc(role.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(chosen, c.Name)
	}))
}

// SetTrainingContainer sets the annotation for the training container of a role, unless the engine chooses only this
// container because it is the first one or kubectl's default.
func (r *Role) SetTrainingContainer(chosen []string, name string) {
	isFirst := r.Template.Spec.Containers[0].Name == name
	isDefault := slices.Equal(chosen, []string{name}) &&
		(isFirst || r.Template.Annotations[gang.AnnotationDefaultContainer] == name)
	if len(r.Template.Spec.Containers) > 1 && !isDefault {
		r.RollcallAnnotations[gang.AnnotationContainers] = name
	}
}

// FindEnvField returns the place of a variable, or the template if the manifest does not have it.
func (r *Role) FindEnvField(container, name string) source.Field {
	return FindEnvField(r.Source, container, name)
}

// RemoveInjectedVars removes the variables that Rollcall sets in the named containers and in all init containers.
func (r *Role) RemoveInjectedVars(injection source.Injection, containers ...string) {
	RemoveInjectedVars(TrainingContainers(&r.Template.Spec, containers), injection, r.FindEnvField)
}
