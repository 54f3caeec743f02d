package ir

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/internal/scheduling"
)

// The usual schedulerName of pods for KAI, and the only one for YuniKorn.
const (
	kaiName      = "kai-scheduler"
	yuniKornName = "yunikorn"
)

// convertSchedulerName sets the scheduler of a gang whose pods all name KAI, which placed the pods of the former job
// together. It would place each workload separately. The label of the queue stays. The task groups of YuniKorn can have
// other names and sizes than roles, which admission denies, so the user sets that scheduler.
func (b *Gang) convertSchedulerName() {
	isPodGroup := func(o runtime.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == scheduling.Kind }
	allName := func(name string) bool {
		return !slices.ContainsFunc(b.Roles, func(r Role) bool { return r.Template.Spec.SchedulerName != name })
	}
	_, isSet := b.Annotations[gang.AnnotationScheduler]
	if b.JobSpec.ManagedBy != nil || slices.ContainsFunc(b.AdditionalObjects, isPodGroup) {
		return
	}
	switch {
	case allName(kaiName) && !isSet:
		b.SetAnnotation(gang.AnnotationScheduler, string(gang.SchedulerKAI))
		b.Source.AddNote("annotation "+gang.AnnotationScheduler+": "+string(gang.SchedulerKAI)+
			" is added; KAI places the gang as one by a PodGroup of Rollcall",
			"install Rollcall with permissions.createPodGroups: true")
	case allName(yuniKornName):
		b.Source.AddNote("YuniKorn does not know the attempts of the gang, so a restart is not placed as one",
			"remove the name of the application, list a task group for each role as in docs/tasks/gang-scheduling.md, and set "+
				gang.AnnotationScheduler+": "+string(gang.SchedulerYuniKorn))
	}
}
