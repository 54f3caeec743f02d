package policy

import (
	"fmt"
	"slices"
	"time"

	"rollcall.training/gang"
)

func (l *SizeLimit) validate(r *reader, path string) {
	r.checkCount(path+".min", l.Min)
	r.checkCount(path+".max", l.Max)
	if l.Min == nil && l.Max == nil {
		r.add(path, "has no effect; set min or max")
	}
	if l.Min != nil && l.Max != nil && *l.Min > *l.Max {
		r.add(path, "no gang satisfies min %d and max %d", *l.Min, *l.Max)
	}
}

func (l *SizeLimit) check(f Facts) []violation {
	switch {
	case l.Max != nil && f.Size > *l.Max:
		return []violation{{
			field:   f.paths.size,
			value:   formatInt(f.Size),
			message: fmt.Sprintf("makes a gang of %s, at most %d are allowed", gang.FormatCount(f.Size, "pod"), *l.Max),
			excess:  float64(f.Size - *l.Max),
		}}
	case l.Min != nil && f.MinSize < *l.Min:
		return []violation{{
			field:   f.paths.size,
			value:   formatInt(f.MinSize),
			message: fmt.Sprintf("makes a gang of %s, at least %d are required", gang.FormatCount(f.MinSize, "pod"), *l.Min),
			excess:  float64(*l.Min - f.MinSize),
		}}
	}
	return nil
}

func (l *GPULimit) validate(r *reader, path string) {
	r.checkCount(path+".max", l.Max)
	r.checkCount(path+".multipleOf", &l.MultipleOf)
	for i := range l.In {
		r.checkCount(fmt.Sprintf("%s.in[%d]", path, i), &l.In[i])
	}
	if l.In != nil && len(l.In) == 0 {
		r.add(path+".in", "is empty, so no gang with accelerators satisfies it; write max: 0 to forbid accelerators")
		return
	}
	if l.Max == nil && l.MultipleOf == 0 && len(l.In) == 0 {
		r.add(path, "has no effect; set max, multipleOf or in")
	}
	if l.Max != nil && *l.Max > 0 && l.MultipleOf > *l.Max {
		r.add(path, "no gang with accelerators satisfies multipleOf %d and max %d", l.MultipleOf, *l.Max)
	}
	if len(l.In) > 0 && !slices.ContainsFunc(l.In, l.allowsNumber) {
		r.add(path, "no number in the list satisfies max and multipleOf")
	}
}

// allowsNumber reports whether a gang may have n accelerators, regardless of l.In.
func (l *GPULimit) allowsNumber(n int64) bool {
	return (l.Max == nil || n <= *l.Max) && (l.MultipleOf == 0 || n%l.MultipleOf == 0)
}

func (l *GPULimit) check(f Facts) []violation {
	if l.Max != nil && f.GPUs > *l.Max {
		message := fmt.Sprintf("makes a gang of %s, at most %d are allowed; %s",
			formatProduct(f), *l.Max, suggestPods(f, *l.Max))
		return []violation{{
			field: f.paths.size, value: formatInt(f.Pods), message: message, excess: float64(f.GPUs - *l.Max),
		}}
	}
	if isTooLarge := len(l.In) > 0 && f.GPUs > slices.Max(l.In); f.GPUsUnknown && !isTooLarge {
		return []violation{{
			field:   f.paths.gpus,
			message: "the accelerators of the other members or of the resource claims are not known yet",
			unknown: true,
		}}
	}
	if f.GPUs == 0 {
		return nil
	}
	makes := "makes a gang of " + formatGPUs(f)
	switch {
	case l.MultipleOf > 0 && f.GPUs%l.MultipleOf != 0 && !f.GPUsUnknown:
		below := f.GPUs - f.GPUs%l.MultipleOf
		return []violation{{
			field: f.paths.size, value: formatInt(f.Pods),
			message: fmt.Sprintf("%s, a multiple of %d is required, such as %d", makes, l.MultipleOf, below+l.MultipleOf),
		}}
	case len(l.In) > 0 && !slices.Contains(l.In, f.GPUs):
		return []violation{{
			field: f.paths.size, value: formatInt(f.Pods),
			message: fmt.Sprintf("%s, allowed are %s", makes, joinInts(l.In)),
		}}
	}
	return nil
}

// formatProduct returns the accelerators of a gang. If they are those of its own pods, it shows how many each
// pod has.
func formatProduct(f Facts) string {
	if f.GPUs != f.Pods*f.GPUsPerPod {
		return formatGPUs(f)
	}
	return fmt.Sprintf("%s (%s x %d)", formatGPUs(f), gang.FormatCount(f.Pods, "pod"), f.GPUsPerPod)
}

// suggestPods returns the largest number of pods with at most maxGPUs accelerators in the gang.
func suggestPods(f Facts, maxGPUs int64) string {
	ofOthers := f.GPUs - f.Pods*f.GPUsPerPod
	own := maxGPUs - ofOthers
	switch {
	case maxGPUs == 0:
		return "remove the accelerators"
	case f.GPUsPerPod == 0 || own <= 0:
		return "use fewer in the other members"
	case own < f.GPUsPerPod:
		return fmt.Sprintf("use at most %d in a single pod", own)
	}
	return "use at most " + gang.FormatCount(own/f.GPUsPerPod, "pod")
}

func joinInts(numbers []int64) string {
	names := make([]string, 0, len(numbers))
	for _, n := range numbers {
		names = append(names, formatInt(n))
	}
	return joinNames(names)
}

// defaultFromPods is the default of [WholeNodesLimit.FromPods].
const defaultFromPods = 2

func (l *WholeNodesLimit) validate(r *reader, path string) {
	r.checkCount(path+".gpusPerNode", &l.GPUsPerNode)
	r.checkCount(path+".fromPods", l.FromPods)
	if l.GPUsPerNode == 0 {
		r.add(path+".gpusPerNode", "is required: the number of accelerators of a node")
	}
}

func (l *WholeNodesLimit) check(f Facts) []violation {
	from := int64(defaultFromPods)
	if l.FromPods != nil {
		from = *l.FromPods
	}
	if f.Size < from || f.GPUsPerPod == 0 || f.GPUsPerPod == l.GPUsPerNode {
		return nil
	}
	message := fmt.Sprintf("each pod has %s, and a gang of %d or more pods must use nodes as a whole; request %d",
		gang.FormatCount(f.GPUsPerPod, "accelerator"), from, l.GPUsPerNode)
	if total := f.GPUs; total%l.GPUsPerNode == 0 && !f.GPUsUnknown {
		message += fmt.Sprintf(" in %s", gang.FormatCount(total/l.GPUsPerNode, "pod"))
	}
	return []violation{{field: f.paths.gpus, value: formatInt(f.GPUsPerPod), message: message}}
}

func (l *GPUHoursLimit) validate(r *reader, path string) { r.checkCount(path+".max", &l.Max) }

func (l *GPUHoursLimit) check(f Facts) []violation {
	if f.GPUs == 0 && !f.GPUsUnknown {
		return nil
	}
	path := specPath.Child("activeDeadlineSeconds").String()
	unknown := func(what string) []violation {
		return []violation{{field: path, message: what + " not known yet", unknown: true}}
	}
	if f.gangRuntime == nil {
		switch {
		case f.GPUs == 0:
			return nil
		case f.endsWithout && !f.membersKnown && f.Kind != gang.Job:
			return unknown("the maximum runtime of the Job that ends the gang is")
		}
		return []violation{{
			field: path,
			message: fmt.Sprintf("is required, because a gang with accelerators may use at most %s; set at most %d",
				gang.FormatCount(l.Max, "GPU-hour"), l.longestRuntime(f)),
		}}
	}
	used := float64(f.GPUs) * f.gangRuntime.Hours() * float64(f.attempts())
	switch {
	case used > float64(l.Max):
		return []violation{{
			field: path, value: formatInt(int64(f.gangRuntime.Seconds())), excess: used - float64(l.Max),
			message: fmt.Sprintf("allows %.0f GPU-hours (%s for %s%s), at most %d are allowed; set at most %d",
				used, formatGPUs(f), formatDuration(*f.gangRuntime), formatAttempts(f), l.Max, l.longestRuntime(f)),
		}}
	case f.GPUsUnknown:
		return unknown("the accelerators of the other members or of the resource claims are")
	}
	return nil
}

// longestRuntime returns the longest allowed runtime of an attempt in seconds.
func (l *GPUHoursLimit) longestRuntime(f Facts) int64 {
	return l.Max * int64(time.Hour/time.Second) / max(f.GPUs, 1) / f.attempts()
}

// attempts returns the largest number of attempts of the gang, without those after a disruption. Each attempt has the
// maximum runtime.
func (f Facts) attempts() int64 {
	if f.RestartPolicy != gang.RestartPolicyGang {
		return 1
	}
	return 1 + f.Restarts
}

func formatAttempts(f Facts) string {
	if f.attempts() == 1 {
		return ""
	}
	return fmt.Sprintf(" in each of %d attempts", f.attempts())
}
