package gang

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// EnvSize is the variable that contains the number of ranks of a gang that is not elastic.
const EnvSize = "ROLLCALL_SIZE"

// The index of a pod in values and variables.
const (
	// IndexPlaceholder stands for the index of the pod in an [EnvValue]. It contains characters that no
	// DNS name and no number contains.
	IndexPlaceholder = "{index}"
	// EnvCompletionIndex is the variable with the completion index. The Job controller appends it to the
	// variables of the template, too late for $(…) in other variables (kubernetes
	// pkg/controller/job/indexed_job_utils.go).
	EnvCompletionIndex = "JOB_COMPLETION_INDEX"
)

// EnvValue is the value of a variable as far as the manifest determines it.
type EnvValue struct {
	// Text is the value, with [IndexPlaceholder] for the index of the pod. A field of the pod that
	// differs between pods is its path in angle brackets, such as <status.podIP>.
	Text string
	// Known is false if only the cluster determines the value, such as a key of a ConfigMap.
	Known bool
}

// Limits of the values that are resolved.
const (
	// maxExpandedBytes limits the text that references add to the values of a container, because
	// references to references grow exponentially. Values beyond the limit are not known.
	maxExpandedBytes = 1 << 18
	// maxResolvedEnv limits the variables of a container whose references are expanded. People and
	// charts write a few hundred.
	maxResolvedEnv = 4096
)

// ResolveEnv returns the values of the variables of a container, in order. It expands $(NAME) as the
// kubelet does: only references to earlier entries, and $$(NAME) stays. The values in injected precede
// the entries of the container. In a Job, $(JOB_COMPLETION_INDEX) is known without an entry, because
// admission adds the entry.
func (w Workload) ResolveEnv(c *corev1.Container, injected map[string]EnvValue) []EnvValue {
	values := make([]EnvValue, len(c.Env))
	if len(c.Env) > maxResolvedEnv {
		for i := range c.Env {
			values[i] = EnvValue{Text: c.Env[i].Value, Known: c.Env[i].ValueFrom == nil}
		}
		return values
	}
	r := envResolver{known: make(map[string]EnvValue, len(c.Env)+len(injected)+1), hasEnvFrom: len(c.EnvFrom) > 0}
	if w.Job != nil {
		r.known[EnvCompletionIndex] = EnvValue{Text: IndexPlaceholder, Known: true}
	}
	for name, value := range injected {
		r.known[name] = value
	}
	for i := range c.Env {
		e := &c.Env[i]
		if e.ValueFrom != nil {
			values[i] = w.resolveSource(e.ValueFrom)
		} else {
			values[i] = r.expand(e.Value)
		}
		r.known[e.Name] = values[i]
	}
	return values
}

type envResolver struct {
	known      map[string]EnvValue
	hasEnvFrom bool
	expanded   int
}

// expand replaces the references in a text.
func (r *envResolver) expand(text string) EnvValue {
	if !strings.Contains(text, "$(") {
		return EnvValue{Text: text, Known: true}
	}
	var out strings.Builder
	for rest := text; rest != ""; {
		start := strings.IndexByte(rest, '$')
		if start < 0 || start+1 == len(rest) {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:start])
		rest = rest[start:]
		end := strings.IndexByte(rest, ')')
		switch {
		case rest[1] == '$':
			out.WriteByte('$')
			rest = rest[2:]
			continue
		case rest[1] != '(' || end < 0:
			out.WriteByte('$')
			rest = rest[1:]
			continue
		}
		reference := rest[:end+1]
		rest = rest[end+1:]
		value, ok := r.known[reference[2:end]]
		switch {
		case !ok && r.hasEnvFrom, ok && !value.Known:
			return EnvValue{}
		case !ok:
			value.Text = reference // The kubelet keeps the text.
		}
		if r.expanded += len(value.Text); r.expanded > maxExpandedBytes {
			return EnvValue{}
		}
		out.WriteString(value.Text)
	}
	return EnvValue{Text: out.String(), Known: true}
}

// resolveSource returns the value of a source, if it is a field of the pod that follows from the
// workload.
func (w Workload) resolveSource(source *corev1.EnvVarSource) EnvValue {
	if source.FieldRef == nil {
		return EnvValue{}
	}
	path, podName := source.FieldRef.FieldPath, w.Meta().Name+"-"+IndexPlaceholder
	if w.Job != nil {
		podName += "-<random>"
	}
	switch path {
	case "metadata.labels['" + w.IndexLabel() + "']":
		return EnvValue{Text: IndexPlaceholder, Known: true}
	case "metadata.annotations['" + batchv1.JobCompletionIndexAnnotation + "']":
		// The annotation (since 1.21) and the label of a pod have the same value.
		return EnvValue{Text: IndexPlaceholder, Known: w.Job != nil}
	case "metadata.name", "metadata.labels['" + appsv1.StatefulSetPodNameLabel + "']":
		return EnvValue{Text: podName, Known: true}
	case "metadata.namespace":
		return EnvValue{Text: w.Meta().Namespace, Known: w.Meta().Namespace != ""}
	case "metadata.labels['" + batchv1.JobNameLabel + "']", "metadata.labels['job-name']":
		return EnvValue{Text: w.Meta().Name, Known: w.Job != nil}
	case "metadata.uid", "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs", "spec.nodeName":
		return EnvValue{Text: "<" + path + ">", Known: true}
	}
	label, isLabel := strings.CutPrefix(path, "metadata.labels['")
	value, known := w.Template().Labels[strings.TrimSuffix(label, "']")]
	return EnvValue{Text: value, Known: isLabel && known}
}
