package jobset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"

	"rollcall.training/migrate/ledger"
)

// meaning is what a variable of a rendezvous says.
type meaning int

// The meanings of variables that Rollcall sets.
const (
	rank0   meaning = iota // the host of rank 0
	port                   // the port on it
	address                // host:port
	rank                   // the pod's rank
	size                   // the number of pods
	world                  // the number of pods, times that of their processes where the user wrote one
	nproc                  // the processes in each pod
	cluster                // all hosts
)

// torch are the variables of frameworks that are told as torch.distributed is.
var torch = map[string]meaning{
	"MASTER_ADDR": rank0, "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": world,
	"PET_MASTER_ADDR": rank0, "PET_MASTER_PORT": port, "PET_NODE_RANK": rank, "PET_NNODES": size, "PET_NPROC_PER_NODE": nproc,
}

// boosting are those of XGBoost and LightGBM.
var boosting = map[string]meaning{
	"MASTER_ADDR": rank0, "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": size, "WORKER_ADDRS": cluster, "WORKER_PORT": port,
	"DMLC_TRACKER_URI": rank0, "DMLC_TRACKER_PORT": port, "DMLC_NUM_WORKER": size, "DMLC_TASK_ID": rank,
}

// given are the variables that Rollcall sets, by framework (injectors/*).
var given = map[string]map[string]meaning{
	"pytorch": torch, "deepspeed": torch, "xgboost": boosting, "lightgbm": boosting,
	"jax": {
		"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": size, "JAX_PROCESS_ID": rank,
		"COORDINATOR_ADDRESS": rank0, "COORDINATOR_PORT": port, "NUM_PROCESSES": size, "PROCESS_ID": rank,
	},
	"tensorflow": {"TF_CONFIG": cluster},
	"paddle": {
		"PADDLE_MASTER": address, "PADDLE_NNODES": size, "PADDLE_TRAINERS_NUM": size, "PADDLE_TRAINER_ID": rank,
		"PADDLE_TRAINER_ENDPOINTS": cluster, "PADDLE_PSERVERS_IP_PORT_LIST": cluster,
	},
}

// meets are the variables that Rollcall does not set where one pod is the whole gang.
var meets = []string{"TF_CONFIG", "WORKER_ADDRS", "WORKER_PORT"}

// Lowest and highest port that a user can choose.
const (
	lowestPort  = 1024
	highestPort = 65535
)

// rendezvous leaves out the variables that Rollcall sets: those of the same meaning are
// carried, others contradict the gang and are reported as changed.
func (s *Set) rendezvous(j *Job) {
	meanings := given[s.Blueprint.Framework]
	if launches(s.Blueprint.Framework) && len(s.roles()) > 1 || meanings == nil {
		return
	}
	spec := j.spec()
	var told []*corev1.Container // the containers that Rollcall tells
	for i := range spec.InitContainers {
		told = append(told, &spec.InitContainers[i])
	}
	if t := j.trainer(); t != nil {
		told = append(told, t)
	}
	for _, first := range []bool{true, false} { // numbers on which others depend come first
		for _, c := range told {
			kept := c.Env[:0:0]
			for _, e := range c.Env {
				m, ours := meanings[e.Name]
				ours = ours && (s.total() > 1 || !slices.Contains(meets, e.Name))
				if !ours || (m == nproc || m == port) != first || !s.leave(j, c, e, m) {
					kept = append(kept, e)
				}
			}
			c.Env = kept
		}
	}
}

// leave accounts for a variable that Rollcall sets; false where the user's stays.
func (s *Set) leave(j *Job, c *corev1.Container, e corev1.EnvVar, m meaning) bool {
	node := j.variable(e.Name)
	if e.ValueFrom != nil {
		if m == rank && indexOf(e) && j.first == 0 && s.roles()[0] == j.Role {
			node.Remark(ledger.Carried, "set by Rollcall", "", "")
			return true
		}
		reason := "what its source holds cannot be known here, and Rollcall knows what it has to be"
		if m == rank && indexOf(e) {
			reason = "it was the index within the job, and ranks go through all parts of the gang"
		}
		node.Remark(ledger.Changed, "set by Rollcall", e.Name+": "+reason, "")
		return true
	}
	if m == nproc {
		return s.processes(j, e)
	}
	value := s.renamed(j, c, e.Value)
	if s.means(value, m) {
		node.Remark(ledger.Carried, "set by Rollcall", "", "")
		return true
	}
	node.Remark(ledger.Changed, "set by Rollcall", fmt.Sprintf("%s was %q, and for this gang it is %s", e.Name, e.Value, s.right(m)), "")
	return true
}

// indexOf reports whether a variable is the pod's index in its Job.
func indexOf(e corev1.EnvVar) bool {
	return e.ValueFrom.FieldRef != nil && strings.Contains(e.ValueFrom.FieldRef.FieldPath, "batch.kubernetes.io/job-completion-index")
}

// processes takes the number of processes in each pod.
func (s *Set) processes(j *Job, e corev1.EnvVar) bool {
	n, err := strconv.Atoi(e.Value)
	word := e.Value == "auto" || e.Value == "gpu" || e.Value == "cpu"
	if _, said := s.Blueprint.Keys[gang.AnnotationNproc]; said || !word && (err != nil || n < 1) {
		return false // the webhook says what is wrong with it
	}
	s.Blueprint.Keys[gang.AnnotationNproc] = e.Value
	j.variable(e.Name).Remark(ledger.Carried, "annotation "+gang.AnnotationNproc, "", "")
	return true
}

// means reports whether a value is what Rollcall sets. A port is taken over, and so is
// the number of processes that a world size tells.
func (s *Set) means(value string, m meaning) bool {
	n, err := strconv.Atoi(value)
	switch m {
	case rank0:
		return s.isRank0(value)
	case port:
		return err == nil && s.port(n)
	case address:
		host, p, ok := strings.Cut(value, ":")
		n, err := strconv.Atoi(p)
		return ok && err == nil && s.isRank0(host) && s.port(n)
	case size:
		return err == nil && n == int(s.total())
	case world:
		return err == nil && s.world(n)
	case rank, nproc, cluster:
	}
	return m == rank && value == "0" && s.total() == 1
}

// isRank0 reports whether a name is that of the gang's first pod.
func (s *Set) isRank0(host string) bool {
	first := s.roleJob(s.roles()[0])
	full := fmt.Sprintf("%s-0.%s", first.place, first.domain)
	return host == full || strings.HasPrefix(host, full+".") || s.total() == 1 && (host == "localhost" || host == "127.0.0.1")
}

// port takes a port over, unless another one was before.
func (s *Set) port(n int) bool {
	if n < lowestPort || n > highestPort {
		return false
	}
	want := strconv.Itoa(n)
	if have, ok := s.Blueprint.Keys[gang.AnnotationPort]; ok {
		return have == want
	}
	s.Blueprint.Keys[gang.AnnotationPort] = want
	return true
}

// world reports whether a world size is that of the gang, and takes over the number of
// processes in each pod that it tells.
func (s *Set) world(n int) bool {
	pods := int(s.total())
	per, err := strconv.Atoi(s.Blueprint.Keys[gang.AnnotationNproc])
	if err == nil {
		return n == pods*per
	}
	if n > pods && n%pods == 0 && s.Blueprint.Keys[gang.AnnotationNproc] == "" {
		s.Blueprint.Keys[gang.AnnotationNproc] = strconv.Itoa(n / pods)
		return true
	}
	return n == pods
}

// right says what a variable is in the gang, for people.
func (s *Set) right(m meaning) string {
	first := s.roleJob(s.roles()[0])
	switch m {
	case rank0:
		return fmt.Sprintf("the first pod, %s-0.%s", first.place, first.domain)
	case port:
		return fmt.Sprintf("a port from %d to %d, the same for all: annotation %s", lowestPort, highestPort, gang.AnnotationPort)
	case address:
		return fmt.Sprintf("the first pod and the gang's port, %s-0.%s:<port>", first.place, first.domain)
	case rank:
		return "the pod's rank"
	case size, world:
		return fmt.Sprintf("the number of ranks, %d pods", s.total())
	case nproc, cluster:
	}
	return "made of the gang's hosts"
}
