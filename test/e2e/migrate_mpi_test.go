package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// mpiTrainJobManifest has a TrainJob, and a runtime with a launcher and nodes.
const mpiTrainJobManifest = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: openmpi}
spec:
  mlPolicy: {numNodes: 1, mpi: {mpiImplementation: OpenMPI, numProcPerNode: 1}}
  template:
    spec:
      successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
      replicatedJobs:
        - name: launcher
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: node, image: "example.com/mpi:1"}]}}}
        - name: node
          template:
            spec:
              template:
                spec: {containers: [{name: node, image: "example.com/mpi:1", command: [/usr/sbin/sshd, -De]}]}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: sim}
spec:
  runtimeRef: {name: openmpi}
  trainer: {numNodes: 2, command: [mpirun, python3, /program/hosts.py]}
`

// mpiJobSetManifest has a launcher that uses JobSet's host names.
const mpiJobSetManifest = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: sim}
spec:
  successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
  replicatedJobs:
    - name: worker
      template:
        spec:
          parallelism: 2
          completions: 2
          template:
            spec: {containers: [{name: mpi, image: "example.com/mpi:1", command: [/usr/sbin/sshd, -De]}]}
    - name: launcher
      dependsOn: [{name: worker, status: Ready}]
      template:
        spec:
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: mpi
                  image: example.com/mpi:1
                  command: [mpirun, --host, "sim-worker-0-0.sim,sim-worker-0-1.sim", python3, /program/hosts.py]
`

// TestMigrateLaunchers migrates a TrainJob and a JobSet whose launcher reaches its workers by ssh.
// The workers stay a Job, which has no pods when the launcher has succeeded.
func TestMigrateLaunchers(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI4)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"TrainJob": mpiTrainJobManifest, "JobSet": mpiJobSetManifest} {
		t.Run(name, func(t *testing.T) {
			ns := s.createNamespace(t)
			s.createExampleProgram(t, ns, "mpi/hosts.py")
			var manifests []string
			for one := range strings.SplitSeq(text, "\n---\n") {
				manifests = append(manifests, adaptManifest(t, one, image, mountProgram))
			}
			s.migrateAndApply(t, ns, manifests...)
			s.waitForTerminalPhase(t, ns, "sim-launcher", lifecycle.Succeeded)
			output := ""
			for _, p := range s.listPods(t, ns, "sim") {
				if p.Labels[gang.LabelRole] == gang.RoleLauncher && p.Status.Phase == corev1.PodSucceeded {
					output += s.readPodLog(t, p)
				}
			}
			if want := "processes 2 sum 1 hosts sim-worker-0 sim-worker-1"; !strings.Contains(output, want) {
				t.Errorf("the launcher did not print %q:\n%s", want, output)
			}
			wait.For(t, "the end of the workers", func(ctx context.Context) error {
				job, err := s.client.BatchV1().Jobs(ns).Get(ctx, "sim-worker", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if phase := job.Labels[gang.LabelPhase]; job.Status.Active != 0 || phase != string(lifecycle.Succeeded) {
					return fmt.Errorf("%d workers are active, and the phase is %s", job.Status.Active, phase)
				}
				return nil
			})
		})
	}
}

// execMPIJobManifest is an MPIJob whose launcher started processes by kubectl exec.
const execMPIJobManifest = `
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: sim}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: trainer
              image: example.com/mpi:1
              command: [mpirun, -np, "2", -mca, plm_rsh_agent, /etc/mpi/kubexec.sh, python3, /program/hosts.py]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: trainer
              image: example.com/mpi:1
              command: [sleep, infinity]
`

// TestMigrateKubectlExec migrates an MPIJob of v1, whose image has no ssh and whose command names kubexec.sh.
func TestMigrateKubectlExec(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), withoutSSH(cluster.OpenMPI4))
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.createExampleProgram(t, ns, "mpi/hosts.py")
	s.migrateAndApply(t, ns, adaptManifest(t, execMPIJobManifest, image, mountProgram))
	s.waitForTerminalPhase(t, ns, "sim-launcher", lifecycle.Succeeded)
	log := s.readLauncherLog(t, ns, "sim")
	if want := "processes 2 sum 1 hosts sim-worker-0 sim-worker-1"; !strings.Contains(log, want) {
		t.Errorf("the launcher did not print %q:\n%s", want, log)
	}
}
