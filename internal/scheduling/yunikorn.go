package scheduling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// The annotations of pods of YuniKorn (yunikorn-k8shim pkg/common/constants).
const (
	annotationTaskGroup      = "yunikorn.apache.org/task-group-name"
	annotationTaskGroups     = "yunikorn.apache.org/task-groups"
	annotationSchedulingRule = "yunikorn.apache.org/schedulingPolicyParameters"
)

// reservationTimeout is the default of YuniKorn for the time for which a gang holds some of its nodes.
const reservationTimeout = 15 * time.Minute

// yuniKorn is Apache YuniKorn, which has no PodGroups. The pods of a gang are an application. YuniKorn creates a
// placeholder pod for each rank, and replaces the placeholders when all of them have nodes. The task groups of the
// first pod that it observes describe all placeholders. Admission does not know the requests of other workloads, so
// the user sets the task groups.
type yuniKorn struct{}

func (yuniKorn) Versions() []schema.GroupVersion { return nil }

func (yuniKorn) Requirement() string { return "" }

// PlanPods sets the application, the task group, and the time after which a gang gives back nodes that it holds in
// vain. YuniKorn then fails the pods, and the next attempt is a new application. By default, YuniKorn would place the
// ranks separately.
func (yuniKorn) PlanPods(p *plan.Plan, g gang.Gang) {
	p.SchedulerName = g.Placement.SchedulerName
	timeout := cmp.Or(g.RestartRules.ScheduleTimeout, reservationTimeout)
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, g.Placement.PodGroup)
	rule := fmt.Sprintf("gangSchedulingStyle=Hard placeholderTimeoutInSeconds=%d",
		int64(gang.ExtendTimeout(timeout, h.Sum32()).Seconds()))
	p.PodLabels = append(p.PodLabels, plan.Label{
		Name: gang.LabelYuniKornApplication, Value: gang.YuniKornApplication(g.Placement.PodGroup, ""), Policy: plan.Warn,
	})
	p.PodAnnotations = append(p.PodAnnotations,
		plan.Label{Name: annotationTaskGroup, Value: g.Role, Policy: plan.Warn},
		plan.Label{Name: annotationSchedulingRule, Value: rule, Policy: plan.Warn})
}

func (yuniKorn) Check(w gang.Workload, g gang.Gang) string {
	if w.StatefulSet != nil || g.RestartRules.RestartPolicy == gang.RestartPolicyPod {
		return fmt.Sprintf("YuniKorn reserves nodes for new applications only, and single pods that restart are not a new "+
			"application; use Jobs with the annotation %s gang or never", gang.AnnotationRestartPolicy)
	}
	const help = "; list a group for each role of the gang, see docs/tasks/gang-scheduling.md"
	text := w.Template().Annotations[annotationTaskGroups]
	if text == "" {
		return "YuniKorn requires the annotation " + annotationTaskGroups + " in the pod template" + help
	}
	groups, ok := parseTaskGroups(text)
	if !ok {
		return "the annotation " + annotationTaskGroups + " of the pod template must be a JSON list of groups, each with " +
			"name, minMember and minResource" + help
	}
	size, name := g.SizeBounds(g.OwnMember()).Min, cmp.Or(w.Template().Annotations[annotationTaskGroup], g.Role)
	if groups[name] != size {
		return fmt.Sprintf("the annotation %s of the pod template has no group %q with minMember %d%s",
			annotationTaskGroups, name, size, help)
	}
	return ""
}

// parseTaskGroups returns the number of pods of each task group, and false for a list that YuniKorn ignores
// (yunikorn-k8shim pkg/cache, GetTaskGroupsFromAnnotation).
func parseTaskGroups(text string) (map[string]int32, bool) {
	var groups []struct {
		Name        string
		MinMember   int32
		MinResource map[string]resource.Quantity
	}
	if err := json.Unmarshal([]byte(text), &groups); err != nil {
		return nil, false
	}
	out := map[string]int32{}
	for _, group := range groups {
		if group.Name == "" || group.MinMember <= 0 || group.MinResource == nil {
			return nil, false
		}
		out[group.Name] = group.MinMember
	}
	return out, true
}

func (yuniKorn) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	return gang.Placement{PodGroup: gang.ReadYuniKornApplication(template)}
}

func (yuniKorn) BuildSpec(string, Group) map[string]any { return nil }

func (yuniKorn) TopologySupport() TopologySupport { return TopologySupport{} }

func (yuniKorn) CanResize(string) bool { return false }

func (yuniKorn) ReservesWithoutPods() bool { return false }
