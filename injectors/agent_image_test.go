package injectors_test

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestAgentImage checks that the agent comes from the image of the configuration, and that an upgrade of the manager
// does not change the image in the template of an existing StatefulSet, whatever the user changes.
func TestAgentImage(t *testing.T) {
	for name, isMounted := range map[string]bool{"an init container copies it": false, "a volume is the image": true} {
		t.Run(name, func(t *testing.T) { checkAgentImage(t, isMounted) })
	}
}

func checkAgentImage(t *testing.T, isMounted bool) {
	t.Helper()
	newEngine := func(image string) *injectors.Engine {
		return injectors.NewEngine(injectors.Builtin(), gang.Config{
			AgentImage: image, MountsAgent: isMounted, Build: image,
		})
	}
	findImages := func(w *appsv1.StatefulSet) []string {
		images := []string{w.Spec.Template.Spec.InitContainers[0].Image}
		for _, v := range w.Spec.Template.Spec.Volumes {
			if v.Image != nil {
				images = append(images, v.Image.Reference)
			}
		}
		return images
	}
	want := []string{"example.com/manager:1"}
	if isMounted {
		want = append(want, want[0])
	}
	old := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train-worker", Namespace: "team",
			Labels: map[string]string{gang.LabelFramework: "mpi", gang.LabelRole: "worker"},
			Annotations: map[string]string{
				gang.AnnotationRoles: "launcher=1,worker=2", gang.AnnotationLaunch: string(gang.LaunchAgent),
			},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
	}
	old.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}
	if _, err := newEngine("example.com/manager:1").Admit(gang.Workload{StatefulSet: old}); err != nil {
		t.Fatal(err)
	}
	if got := findImages(old); !slices.Equal(got, want) {
		t.Errorf("the agent comes from %q, want %q of the configuration", got, want)
	}
	updated := old.DeepCopy()
	c := &updated.Spec.Template.Spec.Containers[0]
	c.Image, c.Env = "example.com/train:2", append(c.Env, corev1.EnvVar{Name: "DATA", Value: "/data"})
	if _, err := newEngine("example.com/manager:2").AdmitUpdate(old, updated); err != nil {
		t.Fatal(err)
	}
	if got := findImages(updated); !slices.Equal(got, want) {
		t.Errorf("after an upgrade, the agent comes from %q, want %q of the existing pods", got, want)
	}
}

// TestAgentVolume checks where the programs of pods come from if they mount the image of the agent.
func TestAgentVolume(t *testing.T) {
	for name, c := range map[string]struct {
		framework, role string
		annotations     map[string]string
		isOldCluster    bool
		wantVolume      bool
		wantContainers  []string
	}{
		"a worker": {
			framework: "mpi", role: "worker", wantVolume: true, wantContainers: []string{"rollcall-agent-setup"},
		},
		"a launcher": {
			framework: "mpi", role: "launcher", wantVolume: true,
			wantContainers: []string{"rollcall-agent-setup", "rollcall-host-monitor"},
		},
		"a launcher that runs ssh mounts a file, which a volume of an image does not permit": {
			framework: "deepspeed", role: "launcher",
			wantContainers: []string{"rollcall-agent-setup", "rollcall-host-monitor"},
		},
		"a probe of progress needs no init container": {
			framework: "pytorch", wantVolume: true,
			annotations: map[string]string{gang.AnnotationProgressFile: "/checkpoints/latest"},
		},
		"an API server without volumes of images": {
			framework: "mpi", role: "worker", isOldCluster: true, wantContainers: []string{"rollcall-agent-setup"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newAgentJob(c.framework, c.role)
			maps.Copy(j.Annotations, c.annotations)
			config := gang.Config{
				AgentImage: "example.com/manager:1", MountsAgent: true, DisableContainerRestartRules: c.isOldCluster,
			}
			if _, err := injectors.NewEngine(injectors.Builtin(), config).Admit(gang.Workload{Job: j}); err != nil {
				t.Fatal(err)
			}
			spec := &j.Spec.Template.Spec
			hasVolume := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil })
			var containers []string
			for _, c := range spec.InitContainers {
				containers = append(containers, c.Name)
			}
			if hasVolume != c.wantVolume || !slices.Equal(containers, c.wantContainers) {
				t.Errorf("the pods have the volume: %t, and the init containers %q, want %t and %q",
					hasVolume, containers, c.wantVolume, c.wantContainers)
			}
			program := slices.IndexFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.MountPath == "/opt/rollcall" && m.ReadOnly
			})
			if program < 0 {
				t.Errorf("no volume at the path of the program: %+v", spec.Containers[0].VolumeMounts)
			}
		})
	}
}

func newAgentJob(framework, role string) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: framework},
			Annotations: map[string]string{},
		},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](1), Parallelism: ptr.To[int32](1), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		},
	}
	if role != "" {
		j.Name += "-" + role
		j.Labels[gang.LabelRole] = role
		j.Annotations[gang.AnnotationRoles] = "launcher=1,worker=1"
		j.Annotations[gang.AnnotationLaunch] = string(gang.LaunchAgent)
	}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}
	return j
}
