package jobset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// frameworkHint describes how to detect a framework.
type frameworkHint struct {
	framework string
	// envPattern matches variables that only programs of the framework read.
	envPattern *regexp.Regexp
	// commandPattern matches commands that only users of the framework write.
	commandPattern *regexp.Regexp
}

// frameworkHints are in the order in which they are tried: launchers before the programs that they
// start, and MASTER_ADDR, which several frameworks read, last.
var frameworkHints = []frameworkHint{
	{"horovod", regexp.MustCompile(`^HOROVOD_`), regexp.MustCompile(`\bhorovodrun\b`)},
	{"deepspeed", nil, regexp.MustCompile(`(^|[\s/;&(])deepspeed\s`)},
	{
		"mpi", regexp.MustCompile(`^(OMPI_MCA_|PRTE_MCA_|I_MPI_HYDRA_)`),
		regexp.MustCompile(`\b(mpirun|mpiexec|mpiexec\.hydra)\b`),
	},
	{"tensorflow", regexp.MustCompile(`^TF_CONFIG$`), regexp.MustCompile(`\btensorflow\b`)},
	{"jax", regexp.MustCompile(`^JAX_`), regexp.MustCompile(`\bjax\b`)},
	{"paddle", regexp.MustCompile(`^PADDLE_`), regexp.MustCompile(`\b(paddle\.distributed|fleetrun)\b`)},
	{"lightgbm", nil, regexp.MustCompile(`\blightgbm\b`)},
	{"xgboost", regexp.MustCompile(`^DMLC_`), regexp.MustCompile(`\bxgboost\b`)},
	{
		"pytorch", regexp.MustCompile(`^(PET_.*|MASTER_ADDR|MASTER_PORT)$`),
		regexp.MustCompile(`\b(torchrun|torch\.distributed|accelerate launch|pytorch)\b`),
	},
}

// ChooseFrameworkAndRoles sets the framework of the gang and the roles of the jobs. The label on the
// JobSet has precedence over the option of the user, and the option over detection. Programs of no known
// framework form a generic gang.
func (s *Reader) ChooseFrameworkAndRoles() {
	if len(s.Jobs) == 0 {
		return
	}
	if s.applyExplicitFramework() || s.detectFramework() {
		s.assignRoles()
		return
	}
	s.Gang.Framework = ir.GenericFramework
	s.assignRoles()
	s.listGangJobs()[0].podTemplateField().AddNoteWithOutcome(source.Changed,
		"label "+gang.LabelFramework+": "+ir.GenericFramework,
		"no variable or command belongs to a framework; every pod gets its rank and the addresses of all roles",
		"for the variables of a framework, name it with --framework")
}

// applyExplicitFramework sets the framework that the user named and reports whether there is one.
func (s *Reader) applyExplicitFramework() bool {
	for _, metadata := range []struct {
		field  string
		values map[string]string
	}{{"labels", s.Gang.Labels}, {"annotations", s.Gang.Annotations}} {
		if v := metadata.values[gang.LabelFramework]; v != "" {
			s.Gang.Framework = v
			delete(metadata.values, gang.LabelFramework)
			field := s.Root.At("metadata", metadata.field, gang.LabelFramework)
			field.DiscardEntries()
			field.MarkPreserved("label " + gang.LabelFramework)
			return true
		}
	}
	s.Gang.Framework = s.Context.Framework
	return s.Gang.Framework != ""
}

// detectFramework detects the framework from variables and commands and reports whether it could.
func (s *Reader) detectFramework() bool {
	for _, hint := range frameworkHints {
		for _, j := range s.Jobs {
			if evidence := hint.findEvidence(j); evidence != "" {
				s.Gang.Framework = hint.framework
				j.podTemplateField().AddNoteWithOutcome(source.Changed, "label "+gang.LabelFramework+": "+hint.framework,
					"no label names the framework; it was detected from "+evidence,
					"if it is wrong, name the framework with --framework")
				return true
			}
		}
	}
	return false
}

// findEvidence returns the variable or word of a job that matches the hint, or "".
func (h frameworkHint) findEvidence(j *ReplicatedJob) string {
	for _, c := range ir.ListContainers(j.podSpec()) {
		for _, e := range c.Env {
			if h.envPattern != nil && h.envPattern.MatchString(e.Name) {
				return "the variable " + e.Name
			}
		}
		if word := h.findCommand(c); word != "" {
			return "the word " + word + " in the command"
		}
	}
	return ""
}

// findCommand returns the word of a container's command that matches the hint, or "".
func (h frameworkHint) findCommand(c *corev1.Container) string {
	command := strings.Join(slices.Concat(c.Command, c.Args), " ") + " "
	return strings.Trim(h.commandPattern.FindString(command), " \t\n;/&(")
}

// roleAliases maps common names of jobs, in the singular, to roles.
var roleAliases = map[string]string{
	"launcher": "launcher", "mpilauncher": "launcher",
	"master": "master", "leader": "master", "coordinator": "master", "head": "master", "chief": "chief",
	"worker": "worker", "node": "worker", "trainer": "worker", "replica": "worker", "slice": "worker", "pod": "worker",
	"ps": "ps", "parameterserver": "ps", "server": "ps", "evaluator": "evaluator", "eval": "evaluator",
}

// inferRole returns the role that the name of a job suggests, or "".
func inferRole(name string) string {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if role, ok := roleAliases[name]; ok {
		return role
	}
	return roleAliases[strings.TrimSuffix(name, "s")]
}

// assignRoles sets the roles of the training jobs.
func (s *Reader) assignRoles() {
	jobs := s.findTrainingJobs()
	if s.hasLauncher() && s.assignLauncher(jobs) {
		return
	}
	if len(jobs) == 1 {
		jobs[0].Role = "worker"
		return
	}
	if s.framework().AnyRoles {
		s.assignNamesAsRoles(jobs)
		return
	}
	for _, j := range jobs {
		j.Role = s.findFrameworkRole(inferRole(j.Name))
		if j.Role == "" {
			j.Source.Get("name").MarkInvalid(fmt.Sprintf(
				"must suggest a role of %s, because several jobs train; name the job worker or after another role of the "+
					"framework, or take it out of the JobSet if it does not train",
				s.Gang.Framework))
			return
		}
	}
	s.checkDuplicateRoles(jobs)
}

// assignNamesAsRoles makes the name of each job its role.
func (s *Reader) assignNamesAsRoles(jobs []*ReplicatedJob) {
	for _, j := range jobs {
		j.Role = j.Name
		if _, ok := s.framework().FindRole(j.Role); !ok {
			j.Source.Get("name").MarkInvalid("cannot be the name of a role; rename the job")
		}
	}
}

// findTrainingJobs returns the jobs whose program matches the framework or whose name suggests a role,
// or all jobs if there are none. Jobs that must be complete before others start are excluded. All jobs of
// a framework with any roles take part.
func (s *Reader) findTrainingJobs() []*ReplicatedJob {
	hint := slices.IndexFunc(frameworkHints, func(h frameworkHint) bool { return h.framework == s.Gang.Framework })
	var known, all []*ReplicatedJob
	for _, j := range s.Jobs {
		if s.isPrerequisite(j) {
			continue
		}
		all = append(all, j)
		if inferRole(j.Name) != "" || hint >= 0 && frameworkHints[hint].findEvidence(j) != "" {
			known = append(known, j)
		}
	}
	if !s.framework().AnyRoles && (len(known) > 1 || len(known) == 1 && !s.hasLauncher()) {
		return known
	}
	return all // a launcher needs workers
}

// isPrerequisite reports whether another job starts after this one is complete.
func (s *Reader) isPrerequisite(j *ReplicatedJob) bool {
	return slices.ContainsFunc(s.Jobs, func(other *ReplicatedJob) bool {
		return slices.ContainsFunc(other.dependencies, func(d dependency) bool {
			return d.requiresCompletion && d.name == j.Name
		})
	})
}

// assignLauncher makes one job the launcher and the others workers. It returns false if no job is a
// launcher.
func (s *Reader) assignLauncher(jobs []*ReplicatedJob) bool {
	launcher := slices.IndexFunc(jobs, func(j *ReplicatedJob) bool { return inferRole(j.Name) == gang.RoleLauncher })
	if launcher < 0 {
		launcher = slices.IndexFunc(jobs, func(j *ReplicatedJob) bool {
			return j.Replicas*j.PodsPerJob == 1 && s.runsLauncher(j)
		})
	}
	if launcher < 0 || s.Gang.Framework == "deepspeed" && len(jobs) == 1 {
		return false
	}
	for i, j := range jobs {
		j.Role = "worker"
		if i == launcher {
			j.Role = gang.RoleLauncher
		}
	}
	s.checkDuplicateRoles(jobs)
	return true
}

// runsLauncher reports whether a job runs the launcher of any framework.
func (s *Reader) runsLauncher(j *ReplicatedJob) bool {
	return slices.ContainsFunc(frameworkHints, func(hint frameworkHint) bool {
		f, _ := s.Context.Frameworks.Find(hint.framework)
		return f.HasLauncher && hint.findEvidence(j) != ""
	})
}

// findFrameworkRole returns the framework's name of a role, or "" if the framework does not have it.
func (s *Reader) findFrameworkRole(role string) string {
	f := s.framework()
	has := func(name string) bool { _, ok := f.FindRole(name); return ok }
	switch {
	case role == "":
		return ""
	case !has("chief") && !has("master") && role != "ps" && role != "evaluator":
		return "worker" // all ranks are equal
	case (role == "master" || role == "chief") && has("chief"):
		return "chief" // TensorFlow's name of the master since version 1.4
	case role == "chief":
		return "master"
	case has(role):
		return role
	}
	return ""
}

// checkDuplicateRoles rejects jobs of one role with different templates, because a role is one
// workload.
func (s *Reader) checkDuplicateRoles(jobs []*ReplicatedJob) {
	for i, j := range jobs {
		for _, other := range jobs[:i] {
			if other.Role != j.Role || equality.Semantic.DeepEqual(other.Template.Spec.Template, j.Template.Spec.Template) {
				continue
			}
			j.Source.Get("name").MarkInvalid(fmt.Sprintf(
				"must suggest another role than %s, because both are the role %s of %s and their templates differ; "+
					"use equal templates or names of different roles", other.Name, j.Role, s.Gang.Framework))
			return
		}
	}
}
