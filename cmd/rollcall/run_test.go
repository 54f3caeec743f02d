package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

// runArgs are the arguments of a gang of two pods, without the command.
func runArgs(more ...string) []string {
	args := []string{"run", "train", "--framework", "pytorch", "--size", "2", "--image", "registry.example.com/train:1"}
	return append(args, more...)
}

func TestRunDryRun(t *testing.T) {
	stdout, stderr, err := runCommand(t, "", runArgs("--gpus", "8", "--env", "LR=0.1", "--env", "NOTE=a=b", "--annotation",
		"rollcall.training/max-restarts=5", "-n", "team", "--dry-run", "--", "torchrun", "train.py", "--epochs=3")...)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    rollcall.training/max-restarts: "5"
  labels:
    rollcall.training/framework: pytorch
  name: train
  namespace: team
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata: {}
    spec:
      containers:
      - command:
        - torchrun
        - train.py
        - --epochs=3
        env:
        - name: LR
          value: "0.1"
        - name: NOTE
          value: a=b
        image: registry.example.com/train:1
        name: trainer
        resources:
          limits:
            nvidia.com/gpu: "8"
      restartPolicy: Never
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	checkOrder(t, stderr, []string{"job/train\n", "NoCheckpointVolume", "0 errors"})
}

// newRunCluster returns a client whose API server answers creations with the admitted Job, if it has a webhook. The
// slice receives each created Job, with "dry run" for those that are not stored.
func newRunCluster(hasWebhook bool) (*fake.Clientset, *[]string) {
	client, calls := fake.NewClientset(), &[]string{}
	client.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		text, err := yaml.Marshal(create.Object)
		*calls = append(*calls, strings.TrimSpace("Job "+strings.Join(create.CreateOptions.DryRun, "")), string(text))
		if err != nil || !hasWebhook {
			return true, create.Object, err
		}
		job := create.Object.(*batchv1.Job).DeepCopy()
		job.Namespace = "team"
		_, err = injectors.NewEngine(injectors.Builtin(), gang.Config{}).Admit(gang.Workload{Job: job})
		job.Labels[gang.LabelPhase] = string(lifecycle.Succeeded)
		if len(create.CreateOptions.DryRun) == 0 {
			err = errors.Join(err, client.Tracker().Add(job))
		}
		return true, job, err
	})
	return client, calls
}

func TestRunCreatesWhatItPrints(t *testing.T) {
	printed, _, err := runCommand(t, "", runArgs("--dry-run", "--", "torchrun", "train.py")...)
	if err != nil {
		t.Fatal(err)
	}
	o := runOptions{
		framework: "pytorch", size: 2, image: "registry.example.com/train:1", watch: true, program: programName,
	}
	job, err := o.buildJob([]string{"train", "torchrun", "train.py"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	client, calls := newRunCluster(true)
	var stdout, stderr strings.Builder
	connect := func() (inspect.Reader, error) { return newReader(client), nil }
	if err := o.run(t.Context(), job, connect, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	created := (*calls)[3]
	var want, got batchv1.Job
	if err := errors.Join(yaml.Unmarshal([]byte(printed), &want), yaml.Unmarshal([]byte(created), &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created Job (-printed +created):\n%s", diff)
	}
	if (*calls)[0] != "Job All" || (*calls)[2] != "Job" {
		t.Errorf("requests %q and %q, want a dry run and a creation", (*calls)[0], (*calls)[2])
	}
	checkOrder(t, stdout.String(), []string{"Job train created in namespace team", "team/train  pytorch  Succeeded"})
}

func TestRunCreatesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		framework string
		webhook   bool
		want      string // part of the error
		wantVet   string // part of standard error
		requests  int
	}{
		"a Job that vet rejects is not sent": {
			framework: "mpi", webhook: true, wantVet: "a gang of mpi has at most 1 launcher",
		},
		"a cluster without the webhook gets only a dry run": {
			framework: "pytorch", want: "no webhook of Rollcall admits Jobs in namespace team", requests: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := runOptions{framework: c.framework, size: 2, image: "train:1", program: programName}
			job, err := o.buildJob([]string{"train", "torchrun", "train.py"}, 1)
			if err != nil {
				t.Fatal(err)
			}
			client, calls := newRunCluster(c.webhook)
			var stdout, stderr strings.Builder
			err = o.run(t.Context(), job, func() (inspect.Reader, error) { return newReader(client), nil }, &stdout, &stderr)
			if err == nil || exitCode(err) != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want exit code 1 and a text that contains %q", err, c.want)
			}
			if len(*calls) != 2*c.requests || stdout.String() != "" || !strings.Contains(stderr.String(), c.wantVet) {
				t.Errorf("requests %q, output %q, findings %q", *calls, stdout.String(), stderr.String())
			}
		})
	}
}

func TestRunUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string // part of the error
	}{
		"a missing name":           {args: []string{"run", "--", "torchrun"}, want: "requires one name"},
		"a command without dashes": {args: runArgs("torchrun", "train.py"), want: "a command after --"},
		"a missing framework":      {args: []string{"run", "train", "--image", "a"}, want: "--framework: required"},
		"an unknown framework":     {args: runArgs("--framework", "caffe"), want: "use pytorch, tensorflow"},
		"a missing image":          {args: []string{"run", "train", "--framework", "jax"}, want: "--image: required"},
		"a gang without pods":      {args: runArgs("--size", "0"), want: "--size: must be at least 1"},
		"a variable without value": {args: runArgs("--env", "LR"), want: "--env LR: must be NAME=VALUE"},
		"an annotation without key": {
			args: runArgs("--annotation", "=5"), want: "--annotation =5: must be KEY=VALUE",
		},
		"a watch of nothing": {args: runArgs("--dry-run", "--watch"), want: "mutually exclusive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := runCommand(t, "", c.args...)
			if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want exit code %d and a text that contains %q", err, exitUsage, c.want)
			}
		})
	}
}
