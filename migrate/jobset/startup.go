package jobset

import (
	"fmt"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// coordinates is the name of the pod that the set calls its coordinator; empty when it
// calls none so.
func (s *Set) coordinates() string {
	n := s.Spec.Get("coordinator")
	j := s.Job(n.Get("replicatedJob").String())
	if j == nil {
		return ""
	}
	job, pod := ptr.Deref(n.Get("jobIndex").Int32(), 0), ptr.Deref(n.Get("podIndex").Int32(), 0)
	host, ok := s.name(j, s.Blueprint.Name, s.subdomain()).host(fmt.Sprint(job), fmt.Sprint(pod))
	if !ok {
		return ""
	}
	return host + "." + j.service(host)
}

// coordinator accounts for the pod that is called so on the others' labels.
func (s *Set) coordinator() {
	n := s.Spec.Get("coordinator")
	if !n.Exists() {
		return
	}
	n.Only("replicatedJob", "jobIndex", "podIndex")
	c := s.coordinates()
	switch {
	case c == "":
		n.Invalid("there is no such pod")
	case len(s.roles()) > 0 && s.isRank0(c):
		n.Carried("rank 0, at which the ranks meet: " + c)
	default:
		n.Changed("variables that read it hold "+c, "the ranks meet at rank 0; no label names another pod", "")
	}
}

// startup accounts for the order in which jobs began.
func (s *Set) startup() {
	policy := s.Spec.Get("startupPolicy")
	policy.Only("startupPolicyOrder")
	switch policy.Get("startupPolicyOrder").String() {
	case "", "AnyOrder":
		policy.Carried("all begin at once")
	case "InOrder":
		policy.Changed("all begin at once", "a launcher waits for its hosts, and other ranks wait for each other in their rendezvous", "")
	default:
		policy.Get("startupPolicyOrder").Invalid("must be AnyOrder or InOrder")
	}
	for _, j := range s.Jobs {
		for _, w := range j.waits {
			switch on := s.Job(w.name); {
			case !w.complete:
				s.ready(j, w)
			case on.Role != "":
				w.node.Lost("the other is a part of the gang, whose ranks begin together", "let the program wait for what it needs")
			}
		}
	}
}

// ready accounts for a job that began when another was ready.
func (s *Set) ready(j *Job, w wait) {
	on := s.Job(w.name)
	switch {
	case j.Role == gang.RoleLauncher && on.Role != "":
		w.node.Carried("the launcher waits until each host answers")
	case j.Role != "" && on.Role != "":
		w.node.Changed("all begin at once", "ranks wait for each other in their rendezvous", "")
	default:
		w.node.Lost("nothing makes one workload wait until another is ready", "let the program try again until it is")
	}
}
