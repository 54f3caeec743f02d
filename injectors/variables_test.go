package injectors_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// TestRegistryVariables compares the variables of a framework with a list that people maintain by
// hand. The list is a second opinion: no command rewrites it, so that a changed policy does not
// pass as one of many differences in generated files.
func TestRegistryVariables(t *testing.T) {
	for name, c := range map[string]struct {
		framework string
		want      []injectors.Variable
	}{
		"address and size are required, Python buffering is not": {
			framework: "jax",
			want: []injectors.Variable{
				{Name: "JAX_COORDINATOR_ADDRESS"},
				{Name: "JAX_COORDINATOR_PORT"},
				{Name: "JAX_LOCAL_DEVICE_IDS", Policy: plan.Suggest},
				{Name: "JAX_NUM_PROCESSES"},
				{Name: "JAX_PROCESS_ID"},
				{Name: "PYTHONUNBUFFERED", Policy: plan.Suggest},
				{Name: "SLURM_JOB_ID"},
				{Name: "SLURM_LOCALID"},
				{Name: "SLURM_NTASKS"},
				{Name: "SLURM_PROCID"},
				{Name: "SLURM_STEP_NODELIST"},
			},
		},
		"a generic gang has required variables only, and none of a framework": {
			framework: "generic",
			want: []injectors.Variable{
				{Name: "ROLLCALL_ADDR_FORMAT"},
				{Name: "ROLLCALL_INDEX"},
				{Name: "ROLLCALL_MASTER_ADDR"},
				{Name: "ROLLCALL_MASTER_PORT"},
				{Name: "ROLLCALL_ROLES"},
			},
		},
		"TF_CONFIG needs several pods": {
			framework: "tensorflow",
			want: []injectors.Variable{
				{Name: "PYTHONUNBUFFERED", Policy: plan.Suggest},
				{Name: "TF_CONFIG", MultiPodOnly: true},
				{Name: "TF_TASK_INDEX", MultiPodOnly: true},
			},
		},
		"variables of collective mode and of parameter servers": {
			framework: "paddle",
			want: []injectors.Variable{
				{Name: "PADDLE_JOB_ID", Policy: plan.Suggest},
				{Name: "PADDLE_LOG_DIR", Policy: plan.Suggest},
				{Name: "PADDLE_MASTER", MultiPodOnly: true},
				{Name: "PADDLE_NNODES", MultiPodOnly: true},
				{Name: "PADDLE_POD_INDEX", MultiPodOnly: true},
				{Name: "PADDLE_RANK", MultiPodOnly: true},
				{Name: "PADDLE_SERVERS_ENDPOINTS", MultiPodOnly: true},
				{Name: "PADDLE_TRAINERS_ENDPOINTS", MultiPodOnly: true},
				{Name: "POD_IP", MultiPodOnly: true},
				{Name: "PYTHONUNBUFFERED", Policy: plan.Suggest},
			},
		},
		"elastic variables are included, with the strictest policy": {
			framework: "pytorch",
			want: []injectors.Variable{
				{Name: "MASTER_ADDR"},
				{Name: "MASTER_PORT"},
				{Name: "NODE_RANK", Policy: plan.KeepUser},
				{Name: "OMP_NUM_THREADS", Policy: plan.Suggest},
				{Name: "PET_MASTER_ADDR"},
				{Name: "PET_MASTER_PORT"},
				{Name: "PET_MAX_RESTARTS", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "PET_NNODES"},
				{Name: "PET_NODE_RANK"},
				{Name: "PET_NPROC_PER_NODE", Policy: plan.Suggest},
				{Name: "PET_RDZV_BACKEND", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "PET_RDZV_CONF", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "PET_RDZV_ENDPOINT", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "PET_RDZV_ID", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "PYTHONUNBUFFERED", Policy: plan.Suggest},
				{Name: "RANK"},
				{Name: "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", Policy: plan.KeepUser, MultiPodOnly: true},
				{Name: "WORLD_SIZE"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := injectors.Builtin().Variables(c.framework)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Variables(%q) differs (-want +got):\n%s", c.framework, diff)
			}
		})
	}
}

// TestRegistryDescribesEveryFramework covers what other packages read from the registry instead
// of keeping a copy.
func TestRegistryDescribesEveryFramework(t *testing.T) {
	registry := injectors.Builtin()
	for _, f := range registry.Frameworks() {
		t.Run(f.Name, func(t *testing.T) {
			if f.Port == 0 || f.PortName == "" {
				t.Errorf("port %d and port name %q must be set", f.Port, f.PortName)
			}
			if _, ok := f.FindRole(f.DefaultRole); !ok {
				t.Errorf("the default role %q is not in Roles", f.DefaultRole)
			}
			declaresLauncher := slices.ContainsFunc(f.Roles, func(r gang.Role) bool { return r.Name == gang.RoleLauncher })
			if declaresLauncher != f.HasLauncher {
				t.Errorf("HasLauncher = %t, but a launcher role exists: %t", f.HasLauncher, declaresLauncher)
			}
			if variables, err := registry.Variables(f.Name); err != nil || len(variables) == 0 {
				t.Errorf("Variables(%q) = %v, %v, want at least one variable", f.Name, variables, err)
			}
		})
	}
	if _, err := registry.Variables("unknown"); err == nil {
		t.Error(`Variables("unknown") returned no error`)
	}
}

// TestEnvLength checks the bounds of one variable and of the variables of all containers.
func TestEnvLength(t *testing.T) {
	const path = "spec.parallelism: Invalid value: "
	for name, c := range map[string]struct {
		ranks          int32
		initContainers int
		want           string
	}{
		"the variables of few containers fit into the object": {ranks: 2700, initContainers: 6},
		"short variables fit into the object":                 {ranks: 2, initContainers: 99},
		"long variables of many containers are denied": {
			ranks: 2700, initContainers: 255,
			want: path + "2700: the variables of 256 containers would have 32262144 bytes, but an object in etcd has room for " +
				"1048576 bytes; use fewer init containers, or fewer ranks with more processes each",
		},
		"short variables of many containers do not fit into the memory of a manager": {
			ranks: 2, initContainers: 255,
			want: "spec.template.spec: Invalid value: \"417140 bytes\": must need at most 229376 bytes of memory " +
				"with the variables of Rollcall, where a text counts as at most 1024; use fewer containers, " +
				"or move data from variables and arguments " +
				"to a ConfigMap or a volume",
		},
		"only the bound of one variable is reported": {
			ranks: 3000, initContainers: 255,
			want: path + "3000: the variable TF_CONFIG would have 139997 bytes, but Linux limits a variable to 131072 bytes; " +
				"use fewer ranks with more processes each, or shorter names",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "tensorflow"},
			}}}
			w.Job.Spec.Parallelism, w.Job.Spec.Completions = &c.ranks, &c.ranks
			spec := &w.Template().Spec
			spec.RestartPolicy = corev1.RestartPolicyNever
			spec.Containers = []corev1.Container{{Name: "trainer"}}
			for i := range c.initContainers {
				spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: fmt.Sprintf("c%d", i)})
			}
			var got string
			result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w)
			if len(result.Denials) > 0 {
				got = result.Denials.ErrorList().ToAggregate().Error()
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("denials (-want +got):\n%s", diff)
			}
		})
	}
}
