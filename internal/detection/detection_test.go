package detection_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/injectors"
	"rollcall.training/internal/detection"
)

func TestFindFramework(t *testing.T) {
	withCommand := func(command ...string) corev1.Container { return corev1.Container{Command: command} }
	withEnv := func(names ...string) corev1.Container {
		var c corev1.Container
		for _, name := range names {
			c.Env = append(c.Env, corev1.EnvVar{Name: name})
		}
		return c
	}
	tests := map[string]struct {
		container corev1.Container
		want      string
	}{
		"torchrun in a script": {
			container: withCommand("bash", "-c", "torchrun --nnodes=2 t.py"), want: "pytorch",
		},
		"module of torchrun": {
			container: withCommand("python", "-m", "torch.distributed.run"), want: "pytorch",
		},
		"accelerate with its subcommand": {
			container: withCommand("accelerate", "launch", "t.py"), want: "pytorch",
		},
		"launcher that starts torchrun":        {container: withCommand("mpirun", "torchrun", "t.py"), want: "mpi"},
		"launcher of Open MPI":                 {container: withCommand("orterun", "-np", "4", "./a"), want: "mpi"},
		"launcher of PRRTE":                    {container: withCommand("prterun", "./a"), want: "mpi"},
		"Hydra's launcher":                     {container: withCommand("mpiexec.hydra", "./a"), want: "mpi"},
		"launcher of Horovod as the last word": {container: withCommand("/usr/bin/horovodrun"), want: "horovod"},
		"horovodrun that calls mpirun": {
			container: withCommand("horovodrun", "--mpi-args", "mpirun"), want: "horovod",
		},
		"launcher of DeepSpeed as the last word": {container: withCommand("/bin/deepspeed"), want: "deepspeed"},
		"program that is only installed": {
			container: withCommand("sh", "-c", "pip install deepspeed && torchrun t.py --deepspeed x.json"), want: "pytorch",
		},
		"file with the name of a launcher": {container: withCommand("python", "deepspeed.py")},
		"launcher next to a variable of another framework": {
			container: corev1.Container{
				Command: []string{"torchrun", "t.py"}, Env: []corev1.EnvVar{{Name: "OMPI_MCA_btl"}},
			},
			want: "pytorch",
		},
		"command line in a variable": {
			container: corev1.Container{
				Command: []string{"sh", "-c", "$RUN"}, Env: []corev1.EnvVar{{Name: "RUN", Value: "horovodrun -np 4 x"}},
			},
			want: "horovod",
		},
		"former launcher of Paddle": {container: withCommand("fleetrun", "t.py"), want: "paddle"},
		"module of Paddle": {
			container: withCommand("python", "-m", "paddle.distributed.launch"), want: "paddle",
		},
		"variable of JAX next to one of several": {
			container: withEnv("JAX_COORDINATOR_ADDRESS", "MASTER_ADDR"), want: "jax",
		},
		"variable in a script": {
			container: withCommand("sh", "-c", "TF_CONFIG=x ./a"), want: "tensorflow",
		},
		"tracker of XGBoost": {container: withEnv("DMLC_TRACKER_URI"), want: "xgboost"},
		"word of a command":  {container: withCommand("lightgbm", "config=x"), want: "lightgbm"},
		"word next to a variable of several": {
			container: corev1.Container{
				Command: []string{"python", "-c", "import xgboost"}, Env: []corev1.EnvVar{{Name: "MASTER_ADDR"}},
			},
			want: "xgboost",
		},
		"variable of several": {container: withEnv("MASTER_ADDR"), want: "pytorch"},
		"no evidence":         {container: withCommand("./run")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.PodSpec{Containers: []corev1.Container{tt.container}}
			frameworks := injectors.Builtin().Frameworks()
			detected, evidence := detection.FindFramework(frameworks, pod)
			if got := detected.Name; got != tt.want || (evidence == "") != (tt.want == "") {
				t.Errorf("detected %q from %q, want %q", got, evidence, tt.want)
			}
		})
	}
}
