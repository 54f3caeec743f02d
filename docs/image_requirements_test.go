package docs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// imageIntro is the part of the page before the frameworks. A tilde stands for a backquote.
const imageIntro = `Rollcall does not change the image of your containers. The image must contain your program, its
framework, and the programs of this page. Injected init containers use the image of the training
container, because every node pulls that image anyway ([ADR 0010](../adr/0010-connections.md)).

With the annotation ~rollcall.training/launch: agent~, the injected containers use the image of the
manager, and a launcher needs no ssh ([launch without sshd](../tasks/run-several-workloads.md#launch-without-sshd)).

The packages are those of Debian. In Alpine, BusyBox contains all of them except ssh.

`

// frameworkPrograms are the programs that users start, and the package that contains them. Rollcall
// does not call them, so no code contains this list.
var frameworkPrograms = map[string]string{
	"pytorch":    "Python with `torch`. The command is `python`, `torchrun`, or a launcher that starts one of them.",
	"tensorflow": "Python with `tensorflow`. The command is `python`.",
	"mpi": "Open MPI, MPICH or Intel MPI, with the same version on all hosts. " +
		"The command of the launcher is `mpirun`.",
	"horovod":  "Python with `horovod`. The command of the launcher is `horovodrun`, or `mpirun` with an MPI.",
	"jax":      "Python with `jax`. The command is `python`.",
	"xgboost":  "Python with `xgboost`. The command is `python`.",
	"lightgbm": "Python with `lightgbm`. The command is `python`.",
	"paddle":   "Python with `paddlepaddle`. The command is `python -m paddle.distributed.launch`.",
	"deepspeed": "Python with `deepspeed`. Without a launcher, the command of the workers is `torchrun` or `python`. " +
		"The command of a launcher is `deepspeed`.",
	"generic": "The programs of your gang. The annotation `rollcall.training/hostfile` requires `/bin/sh`.",
}

// TestImageRequirementsPage generates the reference page of the programs that images must contain.
func TestImageRequirementsPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Image requirements\n\n" + generatedNotice + strings.ReplaceAll(imageIntro, "~", "`"))
	for _, injector := range injectors.Builtin() {
		f := injector.Framework()
		samples, err := injectors.Builtin().Samples(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&page, "## %s\n\n", f.Name)
		if text := frameworkPrograms[f.Name]; text != "" {
			page.WriteString(text + "\n\n")
		}
		page.WriteString(formatProgramTable(samples))
		if f.HasLauncher {
			page.WriteString("With `" + gang.AnnotationLaunch + ": agent`:\n\n")
			page.WriteString(formatProgramTable(planWithAgent(injector, samples)))
		}
	}
	checkPage(t, "reference/image-requirements.md", []byte(strings.TrimSuffix(page.String(), "\n")))
}

// planWithAgent returns the samples for gangs whose processes the agent starts.
func planWithAgent(injector injectors.Injector, samples []injectors.Sample) []injectors.Sample {
	var out []injectors.Sample
	for _, s := range samples {
		s.Gang.Launcher.Launch = gang.LaunchAgent
		s.Plan = injector.Plan(s.Gang)
		out = append(out, s)
	}
	return out
}

// programRow is a line of the table: programs that the same pods need for the same reason.
type programRow struct{ pods, programs, packages, absence string }

// formatProgramTable returns the programs of the sample gangs.
func formatProgramTable(samples []injectors.Sample) string {
	podsByProgram := map[plan.Program][]string{}
	var programs []plan.Program // in the order of the samples
	var allPods []string
	for _, s := range samples {
		pods := s.Gang.Role
		if s.Roles == "" {
			pods += " without other workloads"
		}
		if slices.Contains(allPods, pods) {
			continue // an elastic gang
		}
		allPods = append(allPods, pods)
		for _, p := range s.Plan.Programs {
			if podsByProgram[p] == nil {
				programs = append(programs, p)
			}
			podsByProgram[p] = append(podsByProgram[p], pods)
		}
	}
	if len(programs) == 0 {
		return "Rollcall needs no program in the image.\n\n"
	}
	var rows []programRow
	for _, p := range programs {
		pods := strings.Join(podsByProgram[p], ", ")
		if len(podsByProgram[p]) == len(allPods) {
			pods = "all"
		}
		last := len(rows) - 1
		if last < 0 || rows[last].pods != pods || rows[last].absence != p.Absence {
			rows = append(rows, programRow{pods: pods, absence: p.Absence})
			last++
		}
		rows[last].programs += " `" + p.Name + "`"
		if !slices.Contains(strings.Fields(rows[last].packages), p.Package) {
			rows[last].packages += " " + p.Package
		}
	}
	var out strings.Builder
	out.WriteString("| pods | programs | packages | without them |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s |%s |%s | %s |\n", r.pods, r.programs, r.packages, r.absence)
	}
	return out.String() + "\n"
}
