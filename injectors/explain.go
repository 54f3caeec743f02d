package injectors

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/policy/defaults"
	"rollcall.training/plan"
)

// Explanation is a value that admission adds to a workload, and why.
type Explanation struct {
	// Kind is what the value is, such as "variable", "field" or "volume".
	Kind string `json:"kind"`
	// Container is the container of a variable or a resource. It is empty if there is only one training container.
	Container string `json:"container,omitempty"`
	// Name is the name of the variable or the volume, or the path of the field below spec.
	Name string `json:"name"`
	// Value is the added value. The value of a pod field is its path in angle brackets. It is empty if the name says
	// everything.
	Value string `json:"value,omitempty"`
	// Source is what adds the value: the name of the framework, "every gang", or the policy, such as policy:research.
	Source string `json:"source"`
	// Reason is the purpose of the value.
	Reason string `json:"reason"`
	// OtherValue is what happens if the user has set another value. It is empty if the reason contains it.
	OtherValue string `json:"otherValue,omitempty"`
	// ChangedBy is the annotation, label or field that changes the value. It is empty if nothing changes it.
	ChangedBy string `json:"changedBy,omitempty"`
	// Edited is true if somebody changed or removed the value after admission.
	Edited bool `json:"edited,omitempty"`
}

// everyGang is the source of what all frameworks have in common.
const everyGang = "every gang"

// reason explains the values whose keys in the record of an injection start with prefix. An empty source is the
// framework.
type reason struct{ prefix, source, kind, text, changedBy string }

// reasons are the reasons of all values but variables, the first of matching ones applies. A value without a text needs
// no reason: the content of an added init container, and the mount of a volume, which the volume explains.
var reasons = []reason{
	{"inherited/", "", "", "", ""},
	{"mount/", "", "", "", ""},
	{"field/completionMode", everyGang, "field", "each pod gets an index", ""},
	{"field/completions", everyGang, "field", "all ranks run at the same time", "spec.parallelism"},
	{"field/parallelism", everyGang, "field", "all ranks run at the same time", "spec.completions"},
	{"field/successPolicy", "", "field", "the Job completes with its first pod", gang.AnnotationSuccessPolicy},
	{"field/podManagementPolicy", everyGang, "field", "all pods are created at the same time", ""},
	{"field/serviceName", everyGang, "field", "each pod gets a stable hostname", gang.LabelGang},
	{"field/template.spec.subdomain", everyGang, "field", "each pod gets a stable hostname", gang.LabelGang},
	{"field/template.spec.enableServiceLinks", everyGang, "field",
		"a Service with the name master cannot set MASTER_PORT", ""},
	{"field/", everyGang, "field", "Rollcall counts failures of the gang, so the limits of the Job must be higher",
		gang.AnnotationRestartPolicy},
	{"label/sidecar.istio.io/", everyGang, "pod label",
		"the sidecar of Istio intercepts the connections between ranks, and keeps running after them", ""},
	{"label/training.kubeflow.org/", everyGang, "pod label", "selectors of former users find the pods",
		gang.AnnotationCompatibility},
	{"label/", everyGang, "pod label", "selectors, Services and variables find the pods of the gang by their labels", ""},
	{"volume/" + shmVolumeName, everyGang, "volume", "the default of 64 MiB is too small for data loaders and NCCL",
		gang.AnnotationShmSize},
	{"volume/" + progressVolumeName, everyGang, "volume", "has the program of the probe", gang.AnnotationProgressFile},
	{"volume/", "", "volume", "files that the framework needs", ""},
	{"sizeLimit/", everyGang, "size limit", "the volume counts toward the memory limit", gang.AnnotationShmSize},
	{"restartRules/", everyGang, "restart rules of", "a failed rank does not count as a failed pod of the Job",
		gang.AnnotationRestartPolicy},
	{"terminationMessagePolicy/", everyGang, "termination message policy of", "the end of the log outlives the pod", ""},
	{"resource/", everyGang, "resource", "the annotation requests accelerators", gang.AnnotationGPUs},
	{"probe/", everyGang, "probe", "finds ranks without progress", gang.AnnotationProgressFile},
	{"initContainer/" + progressSetupName, everyGang, "init container", "copies the program of the probe into the pod",
		gang.AnnotationProgressFile},
	{"initContainer/", "", "init container", "prepares files, keys or hosts before the program starts", ""},
	{"command/", "", "command of", "the container has no command, and the ranks need this program", ""},
	{"dnsSearch/", "", "DNS search domain", "programs use hostnames without the Service", ""},
	{"toleration/", everyGang, "toleration", "a pod leaves a lost node after 30 seconds instead of 300",
		gang.AnnotationRestartOnNodeLoss},
	{"annotation/" + gang.AnnotationQueue, everyGang, "pod annotation",
		"all workloads of the gang wait in the queue as one", gang.AnnotationQueue},
	{"annotation/" + gang.AnnotationTopology, everyGang, "pod annotation",
		"the PodGroup has the topology", gang.AnnotationTopology},
	{"annotation/" + gang.AnnotationRankOrder, everyGang, "pod annotation",
		"the launcher orders its hosts by these labels of nodes", gang.AnnotationRankOrder},
	{"annotation/kueue.x-k8s.io/podset-slice-", everyGang, "pod annotation",
		"Kueue places the segments", gang.AnnotationSegment},
	{"annotation/kueue.x-k8s.io/", everyGang, "pod annotation", "Kueue places the gang", gang.AnnotationTopology},
	{"annotation/", everyGang, "pod annotation", "the scheduler places the gang as one", gang.AnnotationScheduler},
	{"podField/", everyGang, "pod field", "the scheduler places the gang as one", gang.AnnotationScheduler},
}

// meanings explain variables, and the key that changes them.
var meanings = map[plan.Meaning]struct{ text, changedBy string }{
	plan.Rank:         {"the rank of the pod", ""},
	plan.Address:      {"where the ranks meet", ""},
	plan.Port:         {"the port at which the ranks meet", gang.AnnotationPort},
	plan.PodCount:     {"the number of pods of the gang", "the size of the workload"},
	plan.WorldSize:    {"the number of ranks", "the size of the workload"},
	plan.ProcessCount: {"the processes of each pod", gang.AnnotationNprocPerNode},
}

// Explain returns what [Engine.Inject] and the controller add to a workload, and its gang. It does not change the
// workload. The result is empty for a workload that Inject does not change. Errors are those of Inject.
func (e *Engine) Explain(w gang.Workload) (gang.Gang, []Explanation, error) {
	injected := w.DeepCopy()
	r, err := e.Inject(injected)
	if err != nil {
		return r.Gang, nil, err
	}
	out, err := e.explainRecord(injected, r.Gang)
	return r.Gang, out, err
}

// ExplainAdmitted returns what admission added to w, a workload of a cluster, and its gang. The values are those of w,
// also if the webhook had another configuration than e. The result is empty for a workload that was not injected.
// Errors are those of [Engine.Describe].
func (e *Engine) ExplainAdmitted(w gang.Workload) (gang.Gang, []Explanation, error) {
	r, err := e.Describe(w)
	if err != nil {
		return r.Gang, nil, err
	}
	out, err := e.explainRecord(w, r.Gang)
	return r.Gang, out, err
}

// explainRecord explains the values in the record of an injected workload.
func (e *Engine) explainRecord(w gang.Workload, g gang.Gang) ([]Explanation, error) {
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return nil, err
	}
	p, err := e.buildPlan(g)
	if err != nil {
		return nil, err
	}
	current, err := record.ReadCurrent(w)
	if err != nil {
		return nil, err
	}
	x := explainer{gang: g, plan: p, template: w.Template()}
	var out []Explanation
	for _, key := range slices.Sorted(maps.Keys(record.Values)) {
		if explanation, ok := x.explain(key, current[key].Text); ok {
			explanation.Edited = current[key].Edited
			out = append(out, explanation)
		}
	}
	for _, v := range defaults.ListSet(w, record) {
		out = append(out, Explanation{
			Kind: kindDefault, Name: v.Path, Value: v.Value, Source: v.Source, OtherValue: "kept",
			Reason: "the manifest did not set the field",
		})
	}
	if service := p.Children.Service; service != nil {
		out = append(out, Explanation{
			Kind: "Service", Name: service.Name, Source: everyGang, ChangedBy: gang.LabelGang,
			Reason: "publishes the hostnames of the ranks before they are ready",
		})
	}
	if name := p.Children.KeyPairSecret; name != "" {
		out = append(out, Explanation{
			Kind: "Secret", Name: name, Source: g.Framework.Name,
			Reason: "has the ssh keys with which the launcher reaches the other pods",
		})
	}
	slices.SortStableFunc(out, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Source, b.Source))
	})
	return out, nil
}

// order sorts the values of the framework before those of every gang, because most users look for them. Those of a
// policy are last.
func (x Explanation) order() int {
	switch {
	case x.Kind == kindDefault:
		return 3
	case x.Source != everyGang:
		return 0
	case x.Kind == kindVariable:
		return 1
	}
	return 2
}

const (
	kindVariable = "variable"
	kindDefault  = "default"
)

// addedByRollcall is the reason of a value that only another version of Rollcall adds.
const addedByRollcall = "added by Rollcall"

// explainer explains the values of one injection.
type explainer struct {
	gang     gang.Gang
	plan     plan.Plan
	template *corev1.PodTemplateSpec
}

// explain explains a value by its key in the record, and its text if it has one. It returns false for a value that
// needs no reason.
func (x explainer) explain(key, value string) (Explanation, bool) {
	kind, name, _ := strings.Cut(key, "/")
	container := ""
	if kind == injection.KindEnv || kind == injection.KindResource {
		container, name, _ = strings.Cut(name, "/")
	}
	if kind == injection.KindEnv {
		isTraining := slices.ContainsFunc(x.gang.Containers, func(c gang.Container) bool { return c.Name == container })
		return x.explainVariable(container, name), isTraining
	}
	i := slices.IndexFunc(reasons, func(r reason) bool { return strings.HasPrefix(key, r.prefix) })
	if i < 0 {
		return Explanation{Kind: kind, Name: name, Source: everyGang, Reason: addedByRollcall}, true
	}
	r := reasons[i]
	switch {
	case value == name: // says everything
		value = ""
	case kind == injection.KindVolume:
		value = x.describeVolume(name)
	}
	return Explanation{
		Kind: r.kind, Container: container, Name: name, Value: value, Source: cmp.Or(r.source, x.gang.Framework.Name),
		Reason: r.text, ChangedBy: r.changedBy,
	}, r.text != ""
}

func (x explainer) explainVariable(container, name string) Explanation {
	out := Explanation{Kind: kindVariable, Name: name, Source: x.gang.Framework.Name}
	if len(x.gang.Containers) > 1 {
		out.Container = container
	}
	for _, c := range x.template.Spec.Containers {
		for _, v := range c.Env {
			if c.Name == container && v.Name == name {
				out.Value = FormatEnvValue(v)
			}
		}
	}
	i := slices.IndexFunc(x.plan.Env, func(v plan.Env) bool { return v.Name == name })
	if i < 0 {
		out.Source, out.Reason = everyGang, addedByRollcall
		if name == gang.EnvCompletionIndex {
			out.Reason = "the index of the pod, to which other variables refer"
		}
		return out
	}
	meaning := meanings[x.plan.Env[i].Meaning]
	out.Reason = cmp.Or(meaning.text, "programs of "+out.Source+" read it")
	if strings.HasPrefix(name, "ROLLCALL_") {
		out.Source, out.Reason = everyGang, "programs read the gang without knowing the framework"
	}
	out.OtherValue, out.ChangedBy = DescribeOtherValue(x.plan.Env[i]), meaning.changedBy
	return out
}

// describeVolume returns the type of a volume, and where the training containers mount it.
func (x explainer) describeVolume(name string) string {
	var words []string
	for _, v := range x.template.Spec.Volumes {
		switch {
		case v.Name == name && v.Secret != nil:
			words = append(words, "Secret "+v.Secret.SecretName)
		case v.Name == name && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil:
			words = append(words, "emptyDir of "+v.EmptyDir.SizeLimit.String())
		}
	}
	for _, c := range x.template.Spec.Containers {
		for _, mount := range c.VolumeMounts {
			if mount.Name == name {
				words = append(words, "at "+mount.MountPath)
			}
		}
	}
	return strings.Join(slices.Compact(words), " ")
}

// FormatEnvValue returns the value of a variable, or the path of its pod field in angle brackets.
func FormatEnvValue(v corev1.EnvVar) string {
	if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
		return "<" + v.ValueFrom.FieldRef.FieldPath + ">"
	}
	return v.Value
}

// DescribeOtherValue describes what happens if the pod template has another value for a planned variable.
func DescribeOtherValue(e plan.Env) string {
	switch {
	case e.Policy != plan.Required:
		return "kept"
	case e.Meaning == plan.Port:
		return "becomes the port of the gang"
	case e.Meaning == plan.WorldSize:
		return "rejected, unless it counts the processes"
	case e.Fix != "":
		return "rejected: " + e.Fix
	}
	return "rejected"
}
