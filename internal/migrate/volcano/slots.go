package volcano

import (
	"fmt"
	"regexp"
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// processCountFlag matches the number of processes in the command of a launcher.
var processCountFlag = regexp.MustCompile(`\s(?:-np|-n|--np|--num-proc)[\s=]+([0-9]+)\b`)

// inferSlotsPerWorker sets the number of processes on each host. Volcano's hostfile has no slots, so
// the command's own number of processes decides.
func (r *reader) inferSlotsPerWorker() {
	if !r.framework.HasLauncher || len(r.gang.Roles) < 2 {
		return
	}
	launcher, worker := &r.gang.Roles[0], &r.gang.Roles[1]
	f := launcher.Source.At("spec", "containers")
	workers, processes := int64(worker.Pods), parseProcessCount(launcher)
	if slots := (processes + workers - 1) / workers; slots > 1 && slots <= gang.MaxProcessesPerPod {
		r.gang.SetAnnotation(gang.AnnotationSlotsPerWorker, fmt.Sprint(slots))
		f.AddNote(fmt.Sprintf("annotation %s: %d, because the command starts %d processes on %d workers",
			gang.AnnotationSlotsPerWorker, slots, processes, workers), "")
		return
	}
	slots := int64(1)
	if r.framework.Name == "deepspeed" {
		slots = max(1, ir.CountAccelerators(&worker.Template.Spec.Containers[0]))
	}
	r.gang.SetAnnotation(gang.AnnotationSlotsPerWorker, fmt.Sprint(slots))
	f.AddNote(fmt.Sprintf("annotation %s: %d, because Volcano does not define the slots of a host",
		gang.AnnotationSlotsPerWorker, slots), "set it to the number of processes of one worker")
}

// parseProcessCount returns the number of processes in the command of a launcher, or 0.
func parseProcessCount(launcher *ir.Role) int64 {
	for _, text := range collectTexts(&launcher.Template.Spec) {
		if match := processCountFlag.FindStringSubmatch(text); match != nil {
			if n, err := strconv.ParseInt(match[1], 10, 32); err == nil {
				return n
			}
		}
	}
	return 0
}
