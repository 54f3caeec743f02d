package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// podSpec runs a program of the ConfigMap "program" as a user without rights, as
// the restricted pod security standard wants it.
func (s *site) podSpec(command ...string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "trainer", Image: s.training, Command: command, WorkingDir: "/program",
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "program", MountPath: "/program"}},
		}},
		Volumes: []corev1.Volume{{Name: "program", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "program"}}}}},
	}
}

func (s *site) program(t *testing.T, ns, file, text string) {
	t.Helper()
	_, err := s.client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "program"}, Data: map[string]string{file: text}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) job(t *testing.T, ns, name string, ranks int32, annotations map[string]string, spec corev1.PodSpec) {
	t.Helper()
	s.labelled(t, ns, name, map[string]string{gang.LabelFramework: "pytorch"}, ranks, annotations, spec)
}

// member creates one of the Jobs of a PyTorch gang of several.
func (s *site) member(t *testing.T, ns, name, role string, ranks int32, annotations map[string]string, spec corev1.PodSpec) {
	t.Helper()
	s.labelled(t, ns, name+"-"+role, map[string]string{gang.LabelFramework: "pytorch", gang.LabelRole: role}, ranks, annotations, spec)
}

func (s *site) labelled(t *testing.T, ns, name string, labels map[string]string, ranks int32, annotations map[string]string, spec corev1.PodSpec) {
	t.Helper()
	_, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec:       batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks, Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// phase waits until a Job's gang is in a terminal phase, and wants that one.
func (s *site) phase(t *testing.T, ns, name string, want gang.Phase) {
	t.Helper()
	eventually(t, "the end of "+name, func(ctx context.Context) error {
		j, err := s.client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := gang.Phase(j.Labels[gang.LabelPhase])
		if j.Status.Failed > 0 && want == gang.Succeeded { // the Job would try again for a long time
			t.Fatalf("%d ranks failed", j.Status.Failed)
		}
		if (got == gang.Succeeded || got == gang.Failed) && got != want {
			t.Fatalf("the gang ended as %s: %s", got, j.Annotations[gang.AnnotationStatus])
		}
		if got != want {
			return fmt.Errorf("phase %q", got)
		}
		return nil
	})
}

// logs returns what each rank of a gang of one workload printed, by pod index.
func (s *site) logs(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.pods(t, ns, name) {
		out[index(p)] = s.podLog(t, p)
	}
	return out
}

// roleLogs returns what each pod of a gang printed, by role and index: "worker-0".
func (s *site) roleLogs(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.pods(t, ns, name) {
		out[p.Labels[gang.LabelRole]+"-"+index(p)] = s.podLog(t, p)
	}
	return out
}

// podLogs returns what each pod of a gang printed that has started, by the pod's name.
func (s *site) podLogs(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.pods(t, ns, name) {
		if p.Status.Phase != corev1.PodPending {
			out[p.Name] = s.podLog(t, p)
		}
	}
	return out
}

// podOf is the name of the pod with an index.
func (s *site) podOf(t *testing.T, ns, name, at string) string {
	t.Helper()
	for _, p := range s.pods(t, ns, name) {
		if index(p) == at && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	t.Fatalf("the gang %s has no pod of index %s", name, at)
	return ""
}

func (s *site) pods(t *testing.T, ns, name string) []corev1.Pod {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: gang.LabelGang + "=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func (s *site) podLog(t *testing.T, p corev1.Pod) string {
	t.Helper()
	text, err := s.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if apierrors.IsNotFound(err) {
		return "" // gone since
	}
	if err != nil {
		t.Fatalf("reading the log of %s: %v", p.Name, err)
	}
	return string(text)
}

func index(p corev1.Pod) string {
	return cmp.Or(p.Labels[batchv1.JobCompletionIndexAnnotation], p.Labels[appsv1.PodIndexLabel])
}

// TestExample applies the example as the README has it, but for the image.
func TestExample(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	s.apply(t, ns, "pytorch", s.training)
	s.phase(t, ns, "all-reduce", gang.Succeeded)
	for index, text := range s.logs(t, ns, "all-reduce") {
		if want := "rank " + index + " world_size 2 result tensor([2])"; !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
	// Label, annotation, condition and Event tell the same.
	if _, err := s.Kubectl(t.Context(), "--namespace", ns, "wait", "job/all-reduce", "--for=condition=GangSucceeded", "--timeout=60s"); err != nil {
		t.Error(err)
	}
	var events string
	eventually(t, "the Events", func(ctx context.Context) (err error) {
		events, err = s.Kubectl(ctx, "--namespace", ns, "get", "events", "--field-selector", "involvedObject.name=all-reduce", "-o", "jsonpath={.items[*].reason}")
		for _, reason := range []gang.Reason{gang.ReasonServiceCreated, gang.ReasonGangSucceeded} {
			if err == nil && !strings.Contains(events, string(reason)) {
				err = fmt.Errorf("no Event %s among %q", reason, events)
			}
		}
		return err
	})
	if strings.Contains(events, string(gang.ReasonGangPending)) {
		t.Errorf("the gang stepped back to Pending while its ranks ended: %q", events)
	}
}

// meet sums ones over all processes and says where it ran, by one write, since
// processes of one pod share its output.
const meet = `
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([1])
dist.all_reduce(t)
shm = os.statvfs("/dev/shm")
print(f"process {dist.get_rank()} of {dist.get_world_size()} sum {t.item()} on {socket.gethostname()} "
      f"shm {shm.f_frsize * shm.f_blocks} threads {torch.get_num_threads()}\n", end="", flush=True)
dist.barrier()
`

// TestTorchrun lets torchrun read the PET_ variables: two pods with two processes.
func TestTorchrun(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	s.program(t, ns, "meet.py", meet)
	spec := s.podSpec("python3", "-m", "torch.distributed.run", "meet.py")
	spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourceCPU: resource.MustParse("4")}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	s.job(t, ns, "train", 2, map[string]string{gang.AnnotationNproc: "2"}, spec)
	s.phase(t, ns, "train", gang.Succeeded)
	all := ""
	for index, text := range s.logs(t, ns, "train") {
		all += text
		if !strings.Contains(text, "on train-"+index+" ") {
			t.Errorf("the processes of pod %s are not on train-%s:\n%s", index, index, text)
		}
	}
	for rank := range 4 {
		// Half of the memory limit as /dev/shm, and 4 cores for 2 processes.
		want := fmt.Sprintf("process %d of 4 sum 4", rank)
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing:\n%s", want, all)
		}
	}
	for _, want := range []string{fmt.Sprintf("shm %d", 1<<30), "threads 2"} {
		if strings.Count(all, want) != 4 {
			t.Errorf("not all processes say %q:\n%s", want, all)
		}
	}
}

// TestStatefulSet: the ordinals are the ranks, and the gang goes with its set.
func TestStatefulSet(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	s.program(t, ns, "meet.py", meet+"\nimport time\ntime.sleep(3600)\n")
	labels := map[string]string{"app": "train"}
	spec := s.podSpec("python3", "meet.py")
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	_, err := s.client.AppsV1().StatefulSets(ns).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "three ranks that met", func(context.Context) error {
		pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: gang.LabelGang + "=train"})
		if err != nil {
			return err
		}
		met := 0
		for _, p := range pods.Items {
			text, err := s.client.CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
			if err != nil {
				return err
			}
			if strings.Contains(string(text), "process "+p.Labels[appsv1.PodIndexLabel]+" of 3 sum 3 on "+p.Name) {
				met++
			}
		}
		if met != 3 {
			return fmt.Errorf("%d of 3 ranks met", met)
		}
		return nil
	})
	eventually(t, "phase Running", func(ctx context.Context) error {
		set, err := s.client.AppsV1().StatefulSets(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && set.Labels[gang.LabelPhase] != string(gang.Running) {
			err = fmt.Errorf("phase %q", set.Labels[gang.LabelPhase])
		}
		return err
	})
	if err := s.client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the gang's Service", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d left", len(list.Items))
		}
		return err
	})
}
