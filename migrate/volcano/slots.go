package volcano

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// processes is the number of processes that a command asks its launcher for.
var processes = regexp.MustCompile(`\s(?:-np|-n|--np|--num-proc)[\s=]+([0-9]+)\b`)

// slots says how many processes the launcher starts on each host. Volcano names hosts
// without slots, so that the command's own number tells: that many processes, one after
// the other on each host.
func (r *reader) slots() {
	if !r.framework.launches || len(r.blueprint.Roles) < 2 {
		return
	}
	launcher, worker := &r.blueprint.Roles[0], &r.blueprint.Roles[1]
	n := launcher.Node.Get("spec").Get("containers")
	if asked := asks(&launcher.Template.Spec); asked > int64(worker.Pods) {
		each := (asked + int64(worker.Pods) - 1) / int64(worker.Pods)
		if each <= mostSlots {
			r.set(gang.AnnotationSlots, strconv.FormatInt(each, 10))
			n.Note(fmt.Sprintf("annotation %s: %d, since the command starts %d processes on %d workers", gang.AnnotationSlots, each, asked, worker.Pods), "")
			return
		}
	}
	each := int64(1)
	if r.framework.name == "deepspeed" {
		each = max(1, accelerators(worker))
	}
	r.set(gang.AnnotationSlots, strconv.FormatInt(each, 10))
	n.Note(fmt.Sprintf("annotation %s: %d; Volcano names no slots of a host", gang.AnnotationSlots, each), "set it to the processes of one worker if they are more")
}

// mostSlots is the largest value of the annotation.
const mostSlots = 1024

// asks is the number of processes that a launcher's command names; 0 when it names none.
func asks(spec *corev1.PodSpec) int64 {
	for _, text := range textsOf(spec) {
		if m := processes.FindStringSubmatch(text); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 32)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// accelerators is the number of GPUs of the container that trains.
func accelerators(role *blueprint.Role) int64 {
	for _, c := range role.Template.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if strings.HasSuffix(string(name), "/gpu") {
				return q.Value()
			}
		}
	}
	return 0
}
