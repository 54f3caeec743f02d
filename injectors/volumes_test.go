package injectors_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/testing/golden"
)

// localVolumesPattern matches the annotation of the Cluster Autoscaler in docs/tasks/drain-nodes.md.
var localVolumesPattern = regexp.MustCompile(`safe-to-evict-local-volumes: (\S+)`)

// TestVolumesOnDisk checks that the page about drains names the volumes for which autoscalers keep a node.
func TestVolumesOnDisk(t *testing.T) {
	page, err := os.ReadFile("../docs/tasks/drain-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	match := localVolumesPattern.FindSubmatch(page)
	if match == nil {
		t.Fatal("the page has no annotation with volumes")
	}
	want, engine := map[string]bool{}, injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for _, c := range golden.Cases(t) {
		w := golden.ParseWorkload(t, c.Manifest)
		had := slices.Clone(w.Template().Spec.Volumes)
		_, _ = engine.Admit(w) // a denied workload is not changed
		for _, v := range w.Template().Spec.Volumes {
			isOnDisk := v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
			isOwn := slices.ContainsFunc(had, func(h corev1.Volume) bool { return h.Name == v.Name })
			if isOnDisk && !isOwn {
				want[v.Name] = true
			}
		}
	}
	got := strings.Split(string(match[1]), ",")
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), got); diff != "" {
		t.Errorf("the page has other volumes than the pods (-want +got):\n%s", diff)
	}
}

// TestVolumesOfInitContainers checks that the volumes of the injected init containers exist if the training
// container mounts files of its own at all paths of a volume.
func TestVolumesOfInitContainers(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for _, role := range []string{"launcher", "worker"} {
		t.Run(role, func(t *testing.T) {
			job := newJob(map[string]string{gang.AnnotationRoles: "launcher=1,worker=1"}, 1)
			job.Name = "train-" + role
			job.Labels[gang.LabelFramework], job.Labels[gang.LabelRole] = "mpi", role
			spec := &job.Spec.Template.Spec
			spec.Volumes = []corev1.Volume{{Name: "own"}}
			for _, file := range []string{"/etc/ssh/ssh_config", "/etc/ssh/sshd_config", "/etc/passwd"} {
				spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
					corev1.VolumeMount{Name: "own", MountPath: file, SubPath: file[1:]})
			}
			w := gang.Workload{Job: job}
			if _, err := engine.Admit(w); err != nil {
				t.Fatal(err)
			}
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				for _, m := range c.VolumeMounts {
					if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
						t.Errorf("the container %s mounts the volume %s, which does not exist", c.Name, m.Name)
					}
				}
			}
			again := w.DeepCopy()
			if _, err := engine.Admit(again); err != nil || !again.Equal(w) {
				t.Errorf("a second admission changes the Job; error %v", err)
			}
		})
	}
}
