package jobset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"

	"rollcall.training/migrate/ledger"
)

// trait is what a framework is told by.
type trait struct {
	framework string
	// variable matches the names of variables that only programs of the framework read.
	variable *regexp.Regexp
	// command matches the commands that only its users write.
	command *regexp.Regexp
}

// traits are looked for in their order: what launches before what is launched, and
// MASTER_ADDR, which half of them read, last.
var traits = []trait{
	{"horovod", regexp.MustCompile(`^HOROVOD_`), regexp.MustCompile(`\bhorovodrun\b`)},
	{"deepspeed", nil, regexp.MustCompile(`(^|[\s/;&(])deepspeed\s`)},
	{"mpi", regexp.MustCompile(`^(OMPI_MCA_|PRTE_MCA_|I_MPI_HYDRA_)`), regexp.MustCompile(`\b(mpirun|mpiexec|mpiexec\.hydra)\b`)},
	{"tensorflow", regexp.MustCompile(`^TF_CONFIG$`), regexp.MustCompile(`\btensorflow\b`)},
	{"jax", regexp.MustCompile(`^JAX_`), regexp.MustCompile(`\bjax\b`)},
	{"paddle", regexp.MustCompile(`^PADDLE_`), regexp.MustCompile(`\b(paddle\.distributed|fleetrun)\b`)},
	{"lightgbm", nil, regexp.MustCompile(`\blightgbm\b`)},
	{"xgboost", regexp.MustCompile(`^DMLC_`), regexp.MustCompile(`\bxgboost\b`)},
	{"pytorch", regexp.MustCompile(`^(PET_.*|MASTER_ADDR|MASTER_PORT)$`), regexp.MustCompile(`\b(torchrun|torch\.distributed|accelerate launch|pytorch)\b`)},
}

// Choose says which framework the gang is of, and which jobs play which part in it. The
// user's word wins: the label on the JobSet, then the option; else both are told from
// variables and commands.
func (s *Set) Choose() {
	if len(s.Jobs) == 0 {
		return
	}
	if !s.named() && !s.recognize() {
		s.Spec.Get("replicatedJobs").Ignore()
		s.Spec.Get("replicatedJobs").Required("no variable or command tells which framework trains: say so with --framework, or with the label " +
			gang.LabelFramework + " on the JobSet")
		return
	}
	s.cast()
}

// named takes the framework that the user named.
func (s *Set) named() bool {
	for _, at := range []struct {
		field  string
		values map[string]string
	}{{"labels", s.Blueprint.Labels}, {"annotations", s.Blueprint.Annotations}} {
		if v := at.values[gang.LabelFramework]; v != "" {
			s.Blueprint.Framework = v
			delete(at.values, gang.LabelFramework)
			n := s.Root.At("metadata", at.field, gang.LabelFramework)
			n.Retract()
			n.Carried("label " + gang.LabelFramework)
			return true
		}
	}
	s.Blueprint.Framework = s.Around.Framework
	return s.Blueprint.Framework != ""
}

// recognize tells the framework from the jobs.
func (s *Set) recognize() bool {
	for _, t := range traits {
		for _, j := range s.Jobs {
			if why := t.in(j); why != "" {
				s.Blueprint.Framework = t.framework
				j.pod().Remark(ledger.Changed, "label "+gang.LabelFramework+": "+t.framework,
					"a JobSet names no framework; this one was told from "+why, "name another with --framework if it is not that one")
				return true
			}
		}
	}
	return false
}

// in says by what a job is known to be of the framework; empty when it is not.
func (t trait) in(j *Job) string {
	for _, c := range j.containers() {
		for _, e := range c.Env {
			if t.variable != nil && t.variable.MatchString(e.Name) {
				return "the variable " + e.Name
			}
		}
		if m := t.command.FindString(strings.Join(slices.Concat(c.Command, c.Args), " ") + " "); strings.TrimSpace(m) != "" {
			return "the word " + strings.Trim(m, " \t\n;/&(") + " in the command"
		}
	}
	return ""
}

// launches are the frameworks whose launcher starts the processes of all others.
func launches(framework string) bool {
	return framework == "mpi" || framework == "horovod" || framework == "deepspeed"
}

// parts are the words by which people call a part, without a plural's s.
var parts = map[string]string{
	"launcher": "launcher", "mpilauncher": "launcher",
	"master": "master", "leader": "master", "coordinator": "master", "head": "master", "chief": "chief",
	"worker": "worker", "node": "worker", "trainer": "worker", "replica": "worker", "slice": "worker", "pod": "worker",
	"ps": "ps", "parameterserver": "ps", "server": "ps", "evaluator": "evaluator", "eval": "evaluator",
}

// part is the part that a job's name speaks of; empty when it speaks of none.
func part(name string) string {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if p, ok := parts[name]; ok {
		return p
	}
	return parts[strings.TrimSuffix(name, "s")]
}

// cast gives each job its role.
func (s *Set) cast() {
	jobs := s.candidates()
	if launches(s.Blueprint.Framework) && s.launcher(jobs) {
		return
	}
	if len(jobs) == 1 {
		jobs[0].Role = "worker"
		return
	}
	for _, j := range jobs {
		j.Role = s.role(part(j.Name))
		if j.Role == "" {
			j.Node.Get("name").Invalid(fmt.Sprintf("several jobs train, and this name does not say which part of %s this one plays; call it worker, or as the framework calls its parts",
				s.Blueprint.Framework))
			return
		}
	}
	s.double(jobs)
}

// candidates are the jobs that train: those that are known to be of the framework, or by
// a name that speaks of a part. Where none is, all are. A job that another one waits for
// to complete trains nothing with it.
func (s *Set) candidates() []*Job {
	var known, rest []*Job
	for _, j := range s.Jobs {
		if s.preparation(j) {
			continue
		}
		rest = append(rest, j)
		i := slices.IndexFunc(traits, func(t trait) bool { return t.framework == s.Blueprint.Framework })
		if part(j.Name) != "" || i >= 0 && traits[i].in(j) != "" {
			known = append(known, j)
		}
	}
	if len(known) > 1 || len(known) == 1 && !launches(s.Blueprint.Framework) {
		return known
	}
	return rest // a launcher alone has nobody to launch on
}

// preparation reports whether some other job begins when this one is complete.
func (s *Set) preparation(j *Job) bool {
	return slices.ContainsFunc(s.Jobs, func(o *Job) bool {
		return slices.ContainsFunc(o.waits, func(w wait) bool { return w.complete && w.name == j.Name })
	})
}

// launcher finds the job that launches, and lets the others work. It is false where none
// does.
func (s *Set) launcher(jobs []*Job) bool {
	at := slices.IndexFunc(jobs, func(j *Job) bool { return part(j.Name) == gang.RoleLauncher })
	if at < 0 {
		at = slices.IndexFunc(jobs, func(j *Job) bool {
			return slices.ContainsFunc(traits[:3], func(t trait) bool { return t.in(j) != "" }) && j.Replicas*j.Pods == 1
		})
	}
	if at < 0 || s.Blueprint.Framework == "deepspeed" && len(jobs) == 1 {
		return false
	}
	for i, j := range jobs {
		j.Role = "worker"
		if i == at {
			j.Role = gang.RoleLauncher
		}
	}
	s.double(jobs)
	return true
}

// role is the framework's word for a part; empty when it has none.
func (s *Set) role(part string) string {
	roles := map[string][]string{
		"tensorflow": {"master", "chief", "worker", "ps", "evaluator"},
		"jax":        {"worker"}, "deepspeed": {"worker"}, "mpi": {"launcher", "worker"}, "horovod": {"launcher", "worker"},
	}[s.Blueprint.Framework]
	switch {
	case part == "":
		return ""
	case roles == nil:
		roles = []string{"master", "worker"}
	case len(roles) == 1 && part != "ps" && part != "evaluator":
		return "worker" // all ranks are alike
	case part == "master":
		return "chief" // as the later releases call it
	}
	if part == "chief" && !slices.Contains(roles, part) {
		part = "master"
	}
	if slices.Contains(roles, part) {
		return part
	}
	return ""
}

// double sees to jobs of one role: they can only be one workload, so their pods have to
// be alike.
func (s *Set) double(jobs []*Job) {
	for i, j := range jobs {
		for _, o := range jobs[:i] {
			if o.Role != j.Role || equality.Semantic.DeepEqual(o.Template.Spec.Template, j.Template.Spec.Template) {
				continue
			}
			j.Node.Get("name").Invalid(fmt.Sprintf("this job and %s would both play the role %s of %s, and their templates differ; make the templates alike, or their names those of different parts",
				o.Name, j.Role, s.Blueprint.Framework))
			return
		}
	}
}
