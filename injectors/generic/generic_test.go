package generic_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/generic"
)

// parseGang parses the Job of a role, with a hostfile.
func parseGang(t *testing.T, workload, role, roles string, pods int32) gang.Gang {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: workload, Namespace: "team",
			Labels:      map[string]string{gang.LabelFramework: "generic", gang.LabelRole: role},
			Annotations: map[string]string{gang.AnnotationHostfile: "/etc/hostfile"},
		},
		Spec: batchv1.JobSpec{Parallelism: ptr.To(pods), Completions: ptr.To(pods)},
	}
	if roles != "" {
		job.Annotations[gang.AnnotationRoles] = roles
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "program", Image: "example.com/program:1"}}
	g, _, errs := gang.Parse(gang.Workload{Job: job}, gang.Frameworks{generic.Injector{}.Framework()}, gang.Config{})
	if len(errs) > 0 {
		t.Fatal(errs.ErrorList().ToAggregate())
	}
	return g
}

// TestAddresses compares the addresses that a program computes, and those of the hostfile, with the
// addresses of the ranks.
func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		workload, role, roles string
		pods                  int32
	}{
		"a gang of one workload":                {workload: "sim", role: "worker", pods: 11},
		"a role that is not the default":        {workload: "sim", role: "simulator", pods: 2},
		"roles whose order is not alphabetical": {workload: "sim-b", role: "b", roles: "c=1,b=12,a=3", pods: 12},
		"a gang and a role with dashes": {
			workload: "my-sim-data-loader", role: "data-loader", roles: "x=2,data-loader=1", pods: 1,
		},
		"a role named launcher that starts no process": {
			workload: "sim-launcher", role: "launcher", roles: "launcher=1,worker=2", pods: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := parseGang(t, c.workload, c.role, c.roles, c.pods)
			var want []string
			for rank := range g.Size {
				want = append(want, g.RankFQDN(rank))
			}
			p := generic.Injector{}.Plan(g)
			variables := map[string]string{}
			for _, e := range p.Env {
				variables[e.Name] = e.Value
			}
			computed := computeAddresses(t, variables["ROLLCALL_ROLES"], variables["ROLLCALL_ADDR_FORMAT"])
			if diff := cmp.Diff(want, computed); diff != "" {
				t.Errorf("the addresses by ROLLCALL_ROLES and ROLLCALL_ADDR_FORMAT differ (-want +got):\n%s", diff)
			}
			if variables["ROLLCALL_MASTER_ADDR"] != want[0] {
				t.Errorf("ROLLCALL_MASTER_ADDR is %q, want the address of rank 0, %q", variables["ROLLCALL_MASTER_ADDR"], want[0])
			}
			setup := p.InitContainers[0]
			script := strings.ReplaceAll(setup.Command[2], ">/etc/rollcall/hosts", "")
			cmd := exec.CommandContext(t.Context(), setup.Command[0], setup.Command[1], script)
			for _, e := range setup.Env {
				cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("running the script: %v", err)
			}
			if diff := cmp.Diff(want, strings.Fields(string(out))); diff != "" {
				t.Errorf("the hostfile differs (-want +got):\n%s", diff)
			}
		})
	}
}

// computeAddresses computes all addresses in the way that the documentation describes.
func computeAddresses(t *testing.T, roles, format string) []string {
	t.Helper()
	var out []string
	for item := range strings.SplitSeq(roles, ",") {
		role, text, _ := strings.Cut(item, "=")
		var size int
		if _, err := fmt.Sscan(text, &size); err != nil {
			t.Fatal(err)
		}
		for i := range size {
			out = append(out, strings.NewReplacer("{role}", role, "{index}", fmt.Sprint(i)).Replace(format))
		}
	}
	return out
}
