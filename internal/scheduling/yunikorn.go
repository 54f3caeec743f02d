package scheduling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// applicationLabels are the other labels by which users name an application. YuniKorn reads the annotation with the key
// of [gang.LabelYuniKornApplication] first, then these, and only in pods without that label (yunikorn-k8shim
// pkg/common/utils, GetApplicationIDFromPod).
var applicationLabels = []string{"applicationId", "spark-app-selector"}

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
	groups, err := parseTaskGroups(text)
	if err != nil {
		return fmt.Sprintf("the annotation %s of the pod template must be a JSON list of task groups: %s%s",
			annotationTaskGroups, gang.ShortenText(err.Error()), help)
	}
	size, name := g.SizeBounds(g.OwnMember()).Min, cmp.Or(w.Template().Annotations[annotationTaskGroup], g.Role)
	if groups[name] != size {
		return fmt.Sprintf("the annotation %s of the pod template has no group %q with minMember %d%s",
			annotationTaskGroups, name, size, help)
	}
	if key := findApplicationKey(w.Template()); key != "" {
		return fmt.Sprintf("the %s of the pod template names the application, but each attempt must be a new application, "+
			"which Rollcall names with the label %s; remove the %[1]s", key, gang.LabelYuniKornApplication)
	}
	return ""
}

// findApplicationKey returns the label or annotation by which the user names the application, and which has no effect
// next to the label of Rollcall; empty if there is none. A label of the user with that key replaces that of Rollcall.
func findApplicationKey(template *corev1.PodTemplateSpec) string {
	if template.Labels[gang.LabelYuniKornApplication] != "" {
		return ""
	}
	if template.Annotations[gang.LabelYuniKornApplication] != "" {
		return "annotation " + gang.LabelYuniKornApplication
	}
	for _, name := range applicationLabels {
		if template.Labels[name] != "" {
			return "label " + name
		}
	}
	return ""
}

// taskGroup has the fields of a task group (yunikorn-k8shim pkg/cache, TaskGroup). YuniKorn ignores all groups if the
// type of a field is wrong, and ignores fields that it does not know.
type taskGroup struct {
	Name                      string
	MinMember                 int32
	MinResource               map[string]taskResource
	Labels, Annotations       map[string]string
	NodeSelector              map[string]string
	Tolerations               []corev1.Toleration
	Affinity                  *corev1.Affinity
	TopologySpreadConstraints []corev1.TopologySpreadConstraint
}

// taskResource is the quantity of a resource, as a text or a number.
type taskResource struct{}

// UnmarshalJSON checks the quantity within the bounds of [gang.ParseQuantity].
func (*taskResource) UnmarshalJSON(text []byte) error {
	if _, err := gang.ParseQuantity(strings.Trim(string(text), `"`)); err != nil {
		return fmt.Errorf("the quantity %s in minResource is invalid: %w", text, err)
	}
	return nil
}

// parseTaskGroups returns the number of pods of each task group, and an error for a list that YuniKorn ignores, as a
// whole or a field of it (yunikorn-k8shim pkg/cache, GetTaskGroupsFromAnnotation).
func parseTaskGroups(text string) (map[string]int32, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var groups []taskGroup
	if err := decoder.Decode(&groups); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the list")
	}
	out := map[string]int32{}
	for _, group := range groups {
		if group.Name == "" || group.MinMember <= 0 || group.MinResource == nil {
			return nil, errors.New("each group requires name, minMember and minResource")
		}
		out[group.Name] = group.MinMember
	}
	return out, nil
}

func (yuniKorn) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	return gang.Placement{PodGroup: gang.ReadYuniKornApplication(template)}
}

func (yuniKorn) BuildSpec(string, Group) map[string]any { return nil }

func (yuniKorn) TopologySupport() TopologySupport { return TopologySupport{} }

func (yuniKorn) CanResize(string) bool { return false }

func (yuniKorn) ReservesWithoutPods() bool { return false }
