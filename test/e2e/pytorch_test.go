package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// newPodSpec returns a pod that runs a program of the ConfigMap "program". It complies with the
// restricted pod security standard.
func (s *testCluster) newPodSpec(command ...string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "trainer", Image: s.trainingImage, Command: command, WorkingDir: "/program",
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

// mountDirectory mounts a directory of this machine, which runs all nodes, as the volume /name of the first container.
// Any user of a pod can write to it.
func mountDirectory(t *testing.T, spec *corev1.PodSpec, name, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
}

func (s *testCluster) createProgram(t *testing.T, ns, file, text string) {
	t.Helper()
	_, err := s.client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "program"}, Data: map[string]string{file: text}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// createExampleProgram creates the ConfigMap of createProgram from a file in examples.
func (s *testCluster) createExampleProgram(t *testing.T, ns, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repositoryRoot, "examples", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	s.createProgram(t, ns, filepath.Base(path), string(text))
}

func (s *testCluster) createJob(
	t *testing.T, ns, name string, ranks int32, annotations map[string]string, spec corev1.PodSpec,
	changes ...func(*batchv1.Job),
) {
	t.Helper()
	labels := map[string]string{gang.LabelFramework: "pytorch"}
	s.createLabeledJob(t, ns, name, labels, ranks, annotations, spec, changes...)
}

// createMemberJob creates one Job of a PyTorch gang of several Jobs.
func (s *testCluster) createMemberJob(
	t *testing.T, ns, name, role string, ranks int32, annotations map[string]string, spec corev1.PodSpec,
) {
	t.Helper()
	s.createLabeledJob(t, ns, name+"-"+role, map[string]string{
		gang.LabelFramework: "pytorch",
		gang.LabelRole:      role,
	}, ranks, annotations, spec)
}

func (s *testCluster) createLabeledJob(
	t *testing.T, ns, name string, labels map[string]string,
	ranks int32, annotations map[string]string, spec corev1.PodSpec, changes ...func(*batchv1.Job),
) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec:       batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks, Template: corev1.PodTemplateSpec{Spec: spec}},
	}
	for _, change := range changes {
		change(job)
	}
	if _, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createStatefulSet creates a PyTorch gang of one StatefulSet.
func (s *testCluster) createStatefulSet(t *testing.T, ns, name string, ranks int32, spec corev1.PodSpec) {
	t.Helper()
	spec.RestartPolicy = corev1.RestartPolicyAlways
	labels := map[string]string{"app": name}
	_, err := s.client.AppsV1().StatefulSets(ns).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &ranks, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// readWorkload returns a Job or a StatefulSet.
func (s *testCluster) readWorkload(ctx context.Context, ns, name string, statefulSet bool) (gang.Workload, error) {
	if statefulSet {
		set, err := s.client.AppsV1().StatefulSets(ns).Get(ctx, name, metav1.GetOptions{})
		return gang.Workload{StatefulSet: set}, err
	}
	job, err := s.client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
	return gang.Workload{Job: job}, err
}

// waitForTerminalPhase waits until the gang of a Job is in a terminal phase. It fails the test
// unless the phase is want.
func (s *testCluster) waitForTerminalPhase(t *testing.T, ns, name string, want lifecycle.Phase) {
	t.Helper()
	wait.For(t, name+" to end", func(ctx context.Context) error {
		j, err := s.client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := lifecycle.Phase(j.Labels[gang.LabelPhase])
		if j.Status.Failed > 0 && want == lifecycle.Succeeded { // the Job would retry for a long time
			t.Fatalf("%d ranks failed", j.Status.Failed)
		}
		if (got == lifecycle.Succeeded || got == lifecycle.Failed) && got != want {
			t.Fatalf("the gang ended as %s: %s", got, j.Annotations[gang.AnnotationStatus])
		}
		if got != want {
			return fmt.Errorf("phase %q", got)
		}
		return nil
	})
}

// readLogsByIndex returns the log of each rank of a gang of one workload by pod index.
func (s *testCluster) readLogsByIndex(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.listPods(t, ns, name) {
		out[podIndex(p)] = s.readPodLog(t, p)
	}
	return out
}

// readLogsByRole returns the log of each pod of a gang by role and index, for example "worker-0".
func (s *testCluster) readLogsByRole(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.listPods(t, ns, name) {
		out[p.Labels[gang.LabelRole]+"-"+podIndex(p)] = s.readPodLog(t, p)
	}
	return out
}

// readLogsByPod returns the log of each started pod of a gang by pod name.
func (s *testCluster) readLogsByPod(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.listPods(t, ns, name) {
		if p.Status.Phase != corev1.PodPending {
			out[p.Name] = s.readPodLog(t, p)
		}
	}
	return out
}

// findPodName returns the name of the pod with an index.
func (s *testCluster) findPodName(t *testing.T, ns, name, at string) string {
	t.Helper()
	for _, p := range s.listPods(t, ns, name) {
		if podIndex(p) == at && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	t.Fatalf("the gang %s has no pod of index %s", name, at)
	return ""
}

func (s *testCluster) listPods(t *testing.T, ns, name string) []corev1.Pod {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: gang.LabelGang + "=" + name,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func (s *testCluster) readPodLog(t *testing.T, p corev1.Pod) string {
	t.Helper()
	text, err := s.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if apierrors.IsNotFound(err) {
		return "" // the pod was deleted
	}
	if err != nil {
		t.Fatalf("reading the log of %s: %v", p.Name, err)
	}
	return string(text)
}

func podIndex(p corev1.Pod) string {
	return cmp.Or(p.Labels[batchv1.JobCompletionIndexAnnotation], p.Labels[appsv1.PodIndexLabel])
}

// TestPyTorchExample applies the example as its README describes, with another image.
func TestPyTorchExample(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.applyExample(t, ns, "pytorch", s.trainingImage)
	s.waitForTerminalPhase(t, ns, "all-reduce", lifecycle.Succeeded)
	for index, text := range s.readLogsByIndex(t, ns, "all-reduce") {
		if want := "rank " + index + " world_size 2 result tensor([2])"; !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
	// Label, annotation and condition must agree.
	if _, err := s.Kubectl(
		t.Context(), "--namespace", ns, "wait", "job/all-reduce", "--for=condition=GangSucceeded", "--timeout=60s",
	); err != nil {
		t.Error(err)
	}
	events, err := s.Kubectl(
		t.Context(), "--namespace", ns, "get", "events",
		"--field-selector", "involvedObject.name=all-reduce,reportingComponent=rollcall", "-o", "jsonpath={.items[*].reason}",
	)
	if err != nil || events != "" {
		t.Errorf("a gang without problems has the Events %q, error %v", events, err)
	}
}

// allReduceProgram sums ones over all processes and prints its host. It prints with a single write,
// because the processes of a pod share one log.
const allReduceProgram = `
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([1])
dist.all_reduce(t)
shm = os.statvfs("/dev/shm")
print(f"process {dist.get_rank()} of {dist.get_world_size()} sum {t.item()} on {socket.gethostname()} "
      f"shm {shm.f_frsize * shm.f_blocks} threads {torch.get_num_threads()}\n", end="", flush=True)
dist.barrier()
`

// TestTorchrun runs torchrun with its PET_ variables: two pods with two processes each.
func TestTorchrun(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "meet.py", allReduceProgram)
	spec := s.newPodSpec("python3", "-m", "torch.distributed.run", "meet.py")
	spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("2Gi"),
		corev1.ResourceCPU:    resource.MustParse("4"),
	}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	s.createJob(t, ns, "train", 2, map[string]string{gang.AnnotationNprocPerNode: "2"}, spec)
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
	all := ""
	for index, text := range s.readLogsByIndex(t, ns, "train") {
		all += text
		if !strings.Contains(text, "on train-"+index+" ") {
			t.Errorf("the processes of pod %s are not on train-%s:\n%s", index, index, text)
		}
	}
	for rank := range 4 {
		// /dev/shm has half of the memory limit, and 2 processes share 4 cores.
		want := fmt.Sprintf("process %d of 4 sum 4", rank)
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing:\n%s", want, all)
		}
	}
	for _, want := range []string{fmt.Sprintf("shm %d", 1<<30), "threads 2"} {
		if strings.Count(all, want) != 4 {
			t.Errorf("not all processes printed %q:\n%s", want, all)
		}
	}
}

// TestStatefulSet checks that the ordinals are the ranks, and that the Service is deleted with the
// StatefulSet.
func TestStatefulSet(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "meet.py", allReduceProgram+"\nimport time\ntime.sleep(3600)\n")
	spec := s.newPodSpec("python3", "meet.py")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	s.createStatefulSet(t, ns, "train", 3, spec)
	wait.For(t, "three ranks to meet", func(context.Context) error {
		pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
			LabelSelector: gang.LabelGang + "=train",
		})
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
	wait.For(t, "phase Running", func(ctx context.Context) error {
		set, err := s.client.AppsV1().StatefulSets(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && set.Labels[gang.LabelPhase] != string(lifecycle.Running) {
			err = fmt.Errorf("phase %q", set.Labels[gang.LabelPhase])
		}
		return err
	})
	if err := s.client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the deletion of the Service", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d left", len(list.Items))
		}
		return err
	})
}
