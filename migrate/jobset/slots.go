package jobset

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// What a launcher's command tells about processes: those on each host, or all of them.
var (
	perHost = regexp.MustCompile(`(?:^|\s)(?:--?(?:npernode|ppn|perhost)[\s=]+|--map-by\s+ppr:|-pernode\s+)([0-9]+)\b`)
	inAll   = regexp.MustCompile(`(?:^|\s)(?:-np?|--np?)[\s=]+([0-9]+)\b`)
)

// slots says how many processes the launcher starts on each host, which it cannot tell
// from limits that are the workers'. A JobSet's user told it to the command.
func (s *Set) slots() {
	if _, said := s.Blueprint.Keys[gang.AnnotationSlots]; said || !launches(s.Blueprint.Framework) || len(s.roles()) < 2 {
		return
	}
	launcher, worker := s.roleJob(gang.RoleLauncher), s.roleJob("worker")
	if launcher == nil || worker == nil {
		return
	}
	n, why := 1, "nothing says how many"
	var text string
	for _, c := range launcher.containers() {
		text += strings.Join(slices.Concat(c.Command, c.Args), " ") + " "
	}
	hosts := int(s.pods("worker"))
	if m := perHost.FindStringSubmatch(text); m != nil {
		n, why = number(m[1]), "the command says so"
	} else if m := inAll.FindStringSubmatch(text); m != nil {
		n, why = (number(m[1])+hosts-1)/hosts, fmt.Sprintf("the command starts %s on %d hosts", m[1], hosts)
	} else if gpus := worker.gpus(); gpus > 0 {
		n, why = gpus, "the accelerators of a worker"
	}
	const most = 1024 // the largest value of the annotation
	s.Blueprint.Keys[gang.AnnotationSlots] = strconv.Itoa(min(max(n, 1), most))
	launcher.pod().Remark(ledger.Changed, "annotation "+gang.AnnotationSlots+": "+s.Blueprint.Keys[gang.AnnotationSlots],
		"the hostfile needs the processes on each host; "+why, "change the annotation if it is another number")
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return n
}

// gpus are the accelerators that the training container may use, of any vendor.
func (j *Job) gpus() int {
	c := j.trainer()
	if c == nil {
		return 0
	}
	n := 0
	for name, q := range c.Resources.Limits {
		for _, word := range []string{"/gpu", "/mig-", "habana.ai/", "aws.amazon.com/neuron"} {
			if strings.Contains(string(name), word) {
				n += int(q.Value())
				break
			}
		}
	}
	return n
}
