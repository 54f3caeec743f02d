package injectors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// maxAddedPodBytes is the maximum number of bytes that an injection without ssh adds to the JSON encoding of
// a pod in a gang of 8 workers, including managedFields. API servers, etcd and each watcher pay for the bytes
// of each pod. 260 of them are tolerations of lost nodes, which Kubernetes adds to other pods itself.
const maxAddedPodBytes = 3500

// TestPodSize compares the pods of labeled Jobs with the pods of the same Jobs without the label. With -v,
// it prints a table.
func TestPodSize(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pod\tJSON\tadded\tof it managedFields\tprotobuf\tadded\t")
	for _, f := range injectors.Builtin().Frameworks() {
		for _, role := range f.Roles {
			plain := newSizedJob(f, role)
			labeled := plain.DeepCopy()
			result, err := engine.Inject(gang.Workload{Job: labeled})
			if err != nil {
				t.Fatal(err)
			}
			before, after := measurePod(t, plain), measurePod(t, labeled)
			added := after.json - before.json
			fmt.Fprintf(w, "%s %s\t%d\t%d\t%d\t%d\t%d\t\n", f.Name, role.Name, after.json, added,
				after.managedFields-before.managedFields, after.protobuf, after.protobuf-before.protobuf)
			if hasSSH := result.Children.KeyPairSecret != ""; !hasSSH && added > maxAddedPodBytes {
				t.Errorf("%s %s: the injection adds %d bytes, want at most %d", f.Name, role.Name, added, maxAddedPodBytes)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

// newSizedJob returns the Job of a role in a gang with 8 workers.
func newSizedJob(f gang.Framework, role gang.Role) *batchv1.Job {
	job := newJob(map[string]string{}, limitSize(role))
	job.Labels[gang.LabelFramework], job.Labels[gang.LabelRole] = f.Name, role.Name
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if role.Name != f.DefaultRole || f.HasLauncher {
		var roles []string
		for _, r := range f.Roles {
			if r.Name == role.Name || r.Name == "worker" || r.Name == gang.RoleLauncher {
				roles = append(roles, fmt.Sprintf("%s=%d", r.Name, limitSize(r)))
			}
		}
		job.Name = "train-" + role.Name
		job.Annotations[gang.AnnotationRoles] = strings.Join(roles, ",")
		if f.HasLauncher {
			job.Annotations[gang.AnnotationSlotsPerWorker] = "8"
		}
	}
	return job
}

// limitSize returns 8, or the maximum number of pods of the role.
func limitSize(r gang.Role) int32 {
	if r.MaxPods > 0 {
		return r.MaxPods
	}
	return 8
}

// podSize is the number of bytes of the encodings of a pod. The JSON encoding contains the managedFields.
type podSize struct{ json, protobuf, managedFields int }

// measurePod returns the size of the first pod of a Job when the Job controller has created it.
func measurePod(t *testing.T, job *batchv1.Job) podSize {
	t.Helper()
	pod := newPodOfJob(job)
	manager := managedfieldstest.NewTestFieldManager(
		applyconfigurations.NewTypeConverter(scheme.Scheme), corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := manager.Update(pod, "kube-controller-manager"); err != nil {
		t.Fatal(err)
	}
	pod.ManagedFields = manager.ManagedFields()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := json.Marshal(pod.ManagedFields)
	if err != nil {
		t.Fatal(err)
	}
	return podSize{json: len(text), protobuf: pod.Size(), managedFields: len(fields)}
}

// newPodOfJob returns the first pod of a Job with the fields that the Job controller (kubernetes
// pkg/controller/job) and the defaults of the API server add.
func newPodOfJob(job *batchv1.Job) *corev1.Pod {
	const uid = "12345678-1234-1234-1234-123456789012"
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            job.Name + "-0-abcde",
			GenerateName:    job.Name + "-0-",
			Namespace:       job.Namespace,
			UID:             uid,
			ResourceVersion: "1234567",
			Labels:          map[string]string{},
			Annotations:     map[string]string{batchv1.JobCompletionIndexAnnotation: "0"},
			Finalizers:      []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: uid,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
	maps.Copy(pod.Labels, template.Labels)
	maps.Copy(pod.Annotations, template.Annotations)
	maps.Copy(pod.Labels, map[string]string{
		batchv1.JobCompletionIndexAnnotation: "0", batchv1.JobNameLabel: job.Name, "job-name": job.Name,
		batchv1.ControllerUidLabel: uid, "controller-uid": uid,
	})
	pod.Spec.Hostname = job.Name + "-0"
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			addDefaults(&list[i])
		}
	}
	pod.Spec.DNSPolicy, pod.Spec.SchedulerName = corev1.DNSClusterFirst, corev1.DefaultSchedulerName
	pod.Spec.SecurityContext, pod.Spec.TerminationGracePeriodSeconds = &corev1.PodSecurityContext{}, ptr.To[int64](30)
	if pod.Spec.EnableServiceLinks == nil {
		pod.Spec.EnableServiceLinks = ptr.To(true)
	}
	return pod
}

// addDefaults adds the variable of the Job controller and the defaults of the API server to a container.
func addDefaults(c *corev1.Container) {
	isIndex := func(e corev1.EnvVar) bool { return e.Name == gang.EnvCompletionIndex }
	if !slices.ContainsFunc(c.Env, isIndex) {
		c.Env = append(c.Env, corev1.EnvVar{Name: gang.EnvCompletionIndex, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{
				APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
			},
		}})
	}
	c.ImagePullPolicy, c.TerminationMessagePath = corev1.PullIfNotPresent, corev1.TerminationMessagePathDefault
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
}
