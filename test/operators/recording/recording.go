package recording

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Recording holds the objects that an operator created for one manifest.
type Recording struct {
	// Operator is the path and version of the operator's Go module.
	Operator string `json:"operator"`
	// Warnings are the warnings of the operator's admission webhooks.
	Warnings []string `json:"warnings,omitempty"`
	// Pods are all pods that exist after everything has started, including the pods of Jobs. They
	// are ordered by Job, role, index and name.
	Pods []Pod `json:"pods"`
	// Jobs are the batch/v1 Jobs that the operator created.
	Jobs []Job `json:"jobs,omitempty"`
	// Services are ordered by name.
	Services []Service `json:"services,omitempty"`
	// ConfigMaps holds the data of each ConfigMap by name.
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
	// Secrets holds the keys of each Secret by name, but no values.
	Secrets map[string][]string `json:"secrets,omitempty"`
}

// Pod is one pod. The name of a Job's pod has no random suffix.
type Pod struct {
	Name string `json:"name"`
	// Job is the batch/v1 Job that created the pod. It is empty if the operator created the pod.
	Job string `json:"job,omitempty"`
	// Role is the operator's name of the replica type.
	Role string `json:"role"`
	// Index is the index within the role or within the Job.
	Index         int               `json:"index"`
	Hostname      string            `json:"hostname,omitempty"`
	Subdomain     string            `json:"subdomain,omitempty"`
	HostNetwork   bool              `json:"hostNetwork,omitempty"`
	RestartPolicy string            `json:"restartPolicy,omitempty"`
	Scheduler     string            `json:"schedulerName,omitempty"`
	Account       string            `json:"serviceAccountName,omitempty"`
	DNSSearches   []string          `json:"dnsSearches,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	// Annotations include the completion index, because fieldRefs may refer to it.
	Annotations    map[string]string          `json:"annotations,omitempty"`
	InitContainers []Container                `json:"initContainers,omitempty"`
	Containers     []Container                `json:"containers"`
	Volumes        []corev1.Volume            `json:"volumes,omitempty"`
	Security       *corev1.PodSecurityContext `json:"securityContext,omitempty"`
}

// Container is one container of a pod.
type Container struct {
	Name           string                       `json:"name"`
	Image          string                       `json:"image"`
	Command        []string                     `json:"command,omitempty"`
	Args           []string                     `json:"args,omitempty"`
	Ports          []corev1.ContainerPort       `json:"ports,omitempty"`
	Env            []Env                        `json:"env,omitempty"`
	EnvFrom        []corev1.EnvFromSource       `json:"envFrom,omitempty"`
	Resources      *corev1.ResourceRequirements `json:"resources,omitempty"`
	VolumeMounts   []corev1.VolumeMount         `json:"volumeMounts,omitempty"`
	ReadinessProbe *corev1.Probe                `json:"readinessProbe,omitempty"`
	Security       *corev1.SecurityContext      `json:"securityContext,omitempty"`
}

// Env is one entry of a container's env. Entries keep the order and the duplicates of the operator.
// The last entry of a name takes effect.
type Env struct {
	Name string `json:"name"`
	// Value is literal. $(VAR) is not expanded.
	Value *string `json:"value,omitempty"`
	// FieldRef is the path of a downward API reference.
	FieldRef string `json:"fieldRef,omitempty"`
	// From is any other source.
	From *corev1.EnvVarSource `json:"from,omitempty"`
}

// Service is a Service. In all these operators it is headless.
type Service struct {
	Name                     string               `json:"name"`
	ClusterIP                string               `json:"clusterIP"`
	Selector                 map[string]string    `json:"selector"`
	Ports                    []corev1.ServicePort `json:"ports,omitempty"`
	PublishNotReadyAddresses bool                 `json:"publishNotReadyAddresses"`
}

// New returns a recording of the pods and services that the operator created itself.
func New(operator string, pods []corev1.Pod, services []corev1.Service) *Recording {
	r := &Recording{Operator: operator}
	for i := range pods {
		r.AddPod(&pods[i])
	}
	for i := range services {
		r.AddService(&services[i])
	}
	return r
}

// AddPod records a pod.
func (r *Recording) AddPod(p *corev1.Pod) {
	r.Pods = append(r.Pods, newPod(p.Name, p.Labels, p.Annotations, &p.Spec))
}

// AddService records a Service.
func (r *Recording) AddService(s *corev1.Service) {
	ports := slices.Clone(s.Spec.Ports)
	slices.SortFunc(ports, func(a, b corev1.ServicePort) int { return cmp.Compare(a.Name, b.Name) })
	r.Services = append(r.Services, Service{
		Name:                     s.Name,
		ClusterIP:                s.Spec.ClusterIP,
		Selector:                 s.Spec.Selector,
		Ports:                    ports,
		PublishNotReadyAddresses: s.Spec.PublishNotReadyAddresses,
	})
}

// AddConfigMap records a ConfigMap.
func (r *Recording) AddConfigMap(c *corev1.ConfigMap) {
	if r.ConfigMaps == nil {
		r.ConfigMaps = map[string]map[string]string{}
	}
	r.ConfigMaps[c.Name] = c.Data
}

// AddSecret records the keys of a Secret.
func (r *Recording) AddSecret(s *corev1.Secret) {
	if r.Secrets == nil {
		r.Secrets = map[string][]string{}
	}
	keys := []string{}
	for k := range s.Data {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	r.Secrets[s.Name] = keys
}

// sortAll sorts all objects into the documented order.
func (r *Recording) sortAll() {
	slices.SortFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Role, b.Role),
			cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(r.Jobs, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(r.Warnings)
}

// roleLabels are the labels with the role of a pod. The first match counts.
var roleLabels = []string{
	"training.kubeflow.org/replica-type",
	"training.kubeflow.org/job-role",
	"jobset.sigs.k8s.io/replicatedjob-name",
}

// indexLabels are the labels with the index of a pod. The first match counts.
var indexLabels = []string{completionIndex, "training.kubeflow.org/replica-index"}

func newPod(name string, labels, annotations map[string]string, spec *corev1.PodSpec) Pod {
	p := Pod{
		Name:          name,
		Hostname:      spec.Hostname,
		Subdomain:     spec.Subdomain,
		HostNetwork:   spec.HostNetwork,
		RestartPolicy: string(spec.RestartPolicy),
		Scheduler:     spec.SchedulerName,
		Account:       spec.ServiceAccountName,
		Labels:        labels,
		Annotations:   annotations,
		Volumes:       spec.Volumes,
		Security:      spec.SecurityContext,
	}
	if spec.DNSConfig != nil {
		p.DNSSearches = spec.DNSConfig.Searches
	}
	for _, l := range roleLabels {
		if p.Role = labels[l]; p.Role != "" {
			break
		}
	}
	for _, l := range indexLabels {
		if i, err := strconv.Atoi(labels[l]); err == nil {
			p.Index = i
			break
		}
	}
	for i := range spec.InitContainers {
		p.InitContainers = append(p.InitContainers, newContainer(&spec.InitContainers[i]))
	}
	for i := range spec.Containers {
		p.Containers = append(p.Containers, newContainer(&spec.Containers[i]))
	}
	return p
}

func newContainer(c *corev1.Container) Container {
	out := Container{
		Name:           c.Name,
		Image:          c.Image,
		Command:        c.Command,
		Args:           c.Args,
		Ports:          c.Ports,
		EnvFrom:        c.EnvFrom,
		VolumeMounts:   c.VolumeMounts,
		ReadinessProbe: c.ReadinessProbe,
		Security:       c.SecurityContext,
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0 {
		out.Resources = &c.Resources
	}
	for _, e := range c.Env {
		out.Env = append(out.Env, newEnv(e))
	}
	return out
}

func newEnv(e corev1.EnvVar) Env {
	switch {
	case e.ValueFrom == nil:
		return Env{Name: e.Name, Value: &e.Value}
	case e.ValueFrom.FieldRef != nil:
		return Env{Name: e.Name, FieldRef: e.ValueFrom.FieldRef.FieldPath}
	default:
		return Env{Name: e.Name, From: e.ValueFrom}
	}
}
