package injectors_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// newPlacedJob returns a Job with a scheduler; without annotation if the scheduler is empty.
func newPlacedJob(scheduler gang.Scheduler) gang.Workload {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"},
			Annotations: map[string]string{},
		},
		Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2)},
	}
	if scheduler != "" {
		job.Annotations[gang.AnnotationScheduler] = string(scheduler)
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}
	return gang.Workload{Job: job}
}

func TestUnservedScheduler(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{}).WithFacts(func(s gang.Scheduler) string {
		if s == gang.SchedulerVolcano {
			return "it is not installed"
		}
		return ""
	}, nil)
	for scheduler, isDenied := range map[gang.Scheduler]bool{
		"": false, gang.SchedulerNone: false, gang.SchedulerNative: false, gang.SchedulerVolcano: true,
	} {
		t.Run("the scheduler "+string(scheduler), func(t *testing.T) {
			w := newPlacedJob(scheduler)
			r, err := engine.Admit(w)
			if (err != nil) != isDenied || isDenied && !strings.Contains(err.Error(), "it is not installed") {
				t.Errorf("the error is %v", err)
			}
			if len(r.Warnings) > 0 {
				t.Errorf("warnings %v", r.Warnings)
			}
			if isDenied && w.Template().Spec.SchedulerName != "" {
				t.Error("the denied workload was changed")
			}
		})
	}
}

// TestDefaultSchedulerChanges checks that a gang keeps its placement if the default of the cluster changes.
func TestDefaultSchedulerChanges(t *testing.T) {
	none := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	native := injectors.NewEngine(injectors.Builtin(), gang.Config{Scheduler: gang.SchedulerNative})
	for name, test := range map[string]struct {
		before, after *injectors.Engine
		wantGroup     string
	}{
		"a gang without a PodGroup gets none":  {before: none, after: native},
		"a gang with a PodGroup keeps it":      {before: native, after: none, wantGroup: "train"},
		"the default places the gang":          {before: native, after: native, wantGroup: "train"},
		"no default leaves the gang unchanged": {before: none, after: none},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacedJob("")
			if _, err := test.before.Admit(w); err != nil {
				t.Fatal(err)
			}
			r, err := test.after.Describe(w)
			if err != nil || r.Children.PodGroup != test.wantGroup || r.Gang.Placement.PodGroup != test.wantGroup {
				t.Errorf("the PodGroup is %q, the placement %+v, the error %v", r.Children.PodGroup, r.Gang.Placement, err)
			}
		})
	}
}

// TestDefaultSchedulerOfOtherPods checks that the default of the cluster does not place pods of another scheduler.
func TestDefaultSchedulerOfOtherPods(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{Scheduler: gang.SchedulerNative})
	w := newPlacedJob("")
	w.Template().Spec.SchedulerName = "volcano"
	r, err := engine.Admit(w)
	if err != nil || r.Children.PodGroup != "" || w.Template().Spec.SchedulingGroup != nil ||
		w.Meta().Annotations[gang.AnnotationScheduler] != "" {
		t.Errorf("the placement is %+v, the error %v", r.Gang.Placement, err)
	}
}

// TestPodGroupOfUser checks that Rollcall creates no PodGroup for pods that name another one.
func TestPodGroupOfUser(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	w := newPlacedJob(gang.SchedulerNative)
	w.Template().Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("mine")}
	admitted, err := engine.Admit(w)
	if err != nil || admitted.Children.PodGroup != "" {
		t.Errorf("the PodGroup is %q, the error %v", admitted.Children.PodGroup, err)
	}
	described, err := engine.Describe(w)
	if err != nil || described.Children.PodGroup != "" || described.Gang.Placement.PodGroup != "mine" {
		t.Errorf("the PodGroup is %q, the placement %+v, the error %v",
			described.Children.PodGroup, described.Gang.Placement, err)
	}
}

// TestRemovedScheduler checks that an update of a StatefulSet without the scheduler removes the PodGroup of its pods.
func TestRemovedScheduler(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newPlacedJob(gang.SchedulerVolcano).Job
	old := &appsv1.StatefulSet{ObjectMeta: job.ObjectMeta}
	old.Spec.Replicas, old.Spec.Template = ptr.To[int32](2), job.Spec.Template
	if _, err := engine.Admit(gang.Workload{StatefulSet: old}); err != nil {
		t.Fatal(err)
	}
	updated := old.DeepCopy()
	updated.Annotations[gang.AnnotationScheduler] = string(gang.SchedulerNone)
	if _, err := engine.AdmitUpdate(old, updated); err != nil {
		t.Fatal(err)
	}
	spec := updated.Spec.Template.Spec
	if group := updated.Spec.Template.Annotations[gang.AnnotationVolcanoGroup]; group != "" ||
		spec.SchedulerName != corev1.DefaultSchedulerName {
		t.Errorf("the PodGroup is %q, the scheduler %q", group, spec.SchedulerName)
	}
}

// TestAnnotationsOfTemplate checks that admission does not warn about the annotations that it has copied to the pod
// template, and that an annotation that is only in the template determines no order of hosts beyond its bounds.
func TestAnnotationsOfTemplate(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{}).
		WithFacts(func(gang.Scheduler) string { return "" }, nil)
	launcher := newAgentJob("mpi", gang.RoleLauncher)
	launcher.Annotations[gang.AnnotationSlotsPerWorker] = "1"
	launcher.Annotations[gang.AnnotationRankOrder] = "example.com/rack"
	placed := newPlacedJob(gang.SchedulerNative)
	placed.Job.Annotations[gang.AnnotationTopology] = "example.com/rack:required"
	for name, w := range map[string]gang.Workload{"an order of hosts": {Job: launcher}, "a topology": placed} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if r, err := engine.Admit(w); err != nil || len(r.Warnings) > 0 {
					t.Errorf("warnings %v, error %v", r.Warnings, err)
				}
			}
		})
	}
	large := newAgentJob("mpi", gang.RoleLauncher)
	large.Spec.Template.Annotations = map[string]string{gang.AnnotationRankOrder: strings.Repeat("a,", 100_000) + "a"}
	r, err := engine.Admit(gang.Workload{Job: large})
	if err != nil || len(r.Gang.RankOrder) > 0 || r.Children.HostOrder != "" {
		t.Errorf("%d labels in the ConfigMap %q, error %v", len(r.Gang.RankOrder), r.Children.HostOrder, err)
	}
}

// TestKAIKeys checks that the keys of KAI work on the workload and in the pod template, and that the pod template
// keeps them.
func TestKAIKeys(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, findMeta := range map[string]func(gang.Workload) *metav1.ObjectMeta{
		"on the workload":     gang.Workload.Meta,
		"in the pod template": func(w gang.Workload) *metav1.ObjectMeta { return &w.Template().ObjectMeta },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacedJob(gang.SchedulerKAI)
			w.Meta().Annotations[gang.AnnotationTopology] = "example.com/rack"
			metav1.SetMetaDataLabel(findMeta(w), gang.LabelKAIQueue, "research")
			metav1.SetMetaDataAnnotation(findMeta(w), gang.AnnotationKAITopology, "network")
			if _, err := engine.Admit(w); err != nil {
				t.Fatal(err)
			}
			delete(w.Meta().Labels, gang.LabelKAIQueue)
			delete(w.Meta().Annotations, gang.AnnotationKAITopology)
			r, err := engine.Describe(w.SelectCached())
			if err != nil {
				t.Fatal(err)
			}
			want := gang.Placement{
				Scheduler: gang.SchedulerKAI, SchedulerName: "kai-scheduler", PodGroup: "team.train", Queue: "research",
				Topology: gang.Topology{Level: "example.com/rack", Object: "network"},
			}
			if diff := cmp.Diff(want, r.Gang.Placement); diff != "" || r.Children.PodGroup != want.PodGroup {
				t.Errorf("Rollcall creates %q; the placement: -want, +got:\n%s", r.Children.PodGroup, diff)
			}
		})
	}
}

// TestCopyOfPlacedWorkload checks that a copy of a live object has the placement of its manifest, and not the injected
// one.
func TestCopyOfPlacedWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		// config is the configuration of the webhook that admits the copy.
		config gang.Config
		// setUp changes the manifest, and edit changes the copy.
		setUp, edit func(gang.Workload)
		want        gang.Placement
	}{
		"a copy without changes has the queue and the topology of the user": {
			want: gang.Placement{
				Scheduler: gang.SchedulerKAI, SchedulerName: "kai-scheduler", PodGroup: "team.copy", Queue: "research",
				Topology: gang.Topology{Level: "example.com/rack", Object: "network"},
			},
		},
		"a copy without the queue and the topology has neither": {
			edit: func(w gang.Workload) {
				delete(w.Meta().Labels, gang.LabelKAIQueue)
				delete(w.Meta().Annotations, gang.AnnotationTopology)
				delete(w.Meta().Annotations, gang.AnnotationKAITopology)
			},
			want: gang.Placement{
				Scheduler: gang.SchedulerKAI, SchedulerName: "kai-scheduler", PodGroup: "team.copy", Queue: "default-queue",
			},
		},
		"a copy keeps the queue of the user in the pod template": {
			setUp: func(w gang.Workload) {
				metav1.SetMetaDataLabel(&w.Template().ObjectMeta, gang.LabelKAIQueue, "research")
			},
			edit: func(w gang.Workload) { delete(w.Meta().Labels, gang.LabelKAIQueue) },
			want: gang.Placement{
				Scheduler: gang.SchedulerKAI, SchedulerName: "kai-scheduler", PodGroup: "team.copy", Queue: "research",
				Topology: gang.Topology{Level: "example.com/rack", Object: "network"},
			},
		},
		"the default of the cluster places a copy without the scheduler": {
			config: gang.Config{Scheduler: gang.SchedulerNative},
			edit:   func(w gang.Workload) { delete(w.Meta().Annotations, gang.AnnotationScheduler) },
			want: gang.Placement{
				Scheduler: gang.SchedulerNative, PodGroup: "copy", Topology: gang.Topology{Level: "example.com/rack"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			admit := func(w gang.Workload, config gang.Config) injectors.Result {
				engine := injectors.NewEngine(injectors.Builtin(), config).
					WithFacts(func(gang.Scheduler) string { return "" }, nil)
				r, err := engine.Admit(w)
				if err != nil || len(r.Warnings) > 0 {
					t.Fatalf("warnings %v, error %v", r.Warnings, err)
				}
				return r
			}
			w := newPlacedJob(gang.SchedulerKAI)
			metav1.SetMetaDataLabel(w.Meta(), gang.LabelKAIQueue, "research")
			w.Meta().Annotations[gang.AnnotationTopology] = "example.com/rack"
			w.Meta().Annotations[gang.AnnotationKAITopology] = "network"
			if test.setUp != nil {
				test.setUp(w)
			}
			admit(w, gang.Config{})
			w.Meta().Name = "copy"
			if test.edit != nil {
				test.edit(w)
			}
			if diff := cmp.Diff(test.want, admit(w, test.config).Gang.Placement); diff != "" {
				t.Errorf("the placement of the copy: -want, +got:\n%s", diff)
			}
		})
	}
}
