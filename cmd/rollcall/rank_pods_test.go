package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

// newGangWithPods returns a gang of three ranks. Rank 2 has no pod.
func newGangWithPods() inspect.Gang {
	newPod := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "trainer"}}}}
	}
	return inspect.Gang{
		Name: "train", Namespace: "team",
		Members: []inspect.Member{{Kind: gang.Job, Name: "train", Containers: []string{"trainer"}}},
		Ranks: []inspect.Rank{
			{Rank: 0, Member: "train", Pod: "train-0-abcde", Node: "a", Object: newPod()},
			{Rank: 1, Member: "train", Pod: "train-1-fghij", Node: "b", Object: newPod()},
			{Rank: 2, Member: "train", State: lifecycle.RankPending, Reason: "the rank has no pod"},
		},
	}
}

func TestSelectPods(t *testing.T) {
	for ranks, want := range map[string]string{
		"0-1": "",
		"2":   "rank 2 of gang train has no running pod: the rank has no pod",
		"7":   "--rank: gang train has 3 ranks, numbered from 0; it does not have rank 7",
	} {
		selected, err := parseRanks(ranks)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := selectPods(newGangWithPods(), selected); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--rank %s: error %q, want %q", ranks, got, want)
		}
	}
}

func TestExec(t *testing.T) {
	for name, c := range map[string]struct {
		ranks     int
		container string
		failRank  string
		want      []string
		wantOut   string
		wantError string
	}{
		"one rank": {
			ranks: 1,
			want:  []string{"--context c --namespace team exec train-0-abcde --container trainer --stdin -- nvidia-smi -L"},
		},
		"another container": {
			ranks: 1, container: "sidecar",
			want: []string{"--context c --namespace team exec train-0-abcde --container sidecar --stdin -- nvidia-smi -L"},
		},
		"several ranks get no input, and a failure does not stop the others": {
			ranks: 2, failRank: "train-0",
			want: []string{
				"--context c --namespace team exec train-0-abcde --container trainer -- nvidia-smi -L",
				"--context c --namespace team exec train-1-fghij --container trainer -- nvidia-smi -L",
			},
			wantOut:   "--- rank 0, pod train-0-abcde\n--- rank 1, pod train-1-fghij\n",
			wantError: "the command failed in 1 rank",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			o := rankOptions{cluster: clusterFlags{context: "c"}, container: c.container}
			o.runKubectl = func(_ *cobra.Command, args []string) error {
				got = append(got, strings.Join(args, " "))
				if c.failRank != "" && strings.Contains(got[len(got)-1], c.failRank) {
					return errors.New("exit code 1")
				}
				return nil
			}
			cmd, out := &cobra.Command{}, &bytes.Buffer{}
			cmd.SetOut(out)
			cmd.SetIn(strings.NewReader(""))
			g := newGangWithPods()
			message := ""
			if err := o.exec(cmd, g, g.Ranks[:c.ranks], []string{"nvidia-smi", "-L"}); err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("kubectl (-want +got):\n" + diff)
			}
			if out.String() != c.wantOut || message != c.wantError {
				t.Errorf("output %q and error %q, want %q and %q", out, message, c.wantOut, c.wantError)
			}
		})
	}
}

func TestForwardPorts(t *testing.T) {
	var got []string
	o := rankOptions{cluster: clusterFlags{kubeconfig: "k"}}
	o.runKubectl = func(_ *cobra.Command, args []string) error { got = args; return nil }
	g := newGangWithPods()
	if err := o.forwardPorts(&cobra.Command{}, g, g.Ranks[1:2], []string{"6006"}); err != nil {
		t.Fatal(err)
	}
	want := "--kubeconfig k --namespace team port-forward pod/train-1-fghij 6006"
	if strings.Join(got, " ") != want {
		t.Errorf("kubectl %q, want %q", got, want)
	}
	if err := o.forwardPorts(&cobra.Command{}, g, g.Ranks[:2], []string{"6006"}); exitCode(err) != exitUsage {
		t.Errorf("two ranks: error %v, want a usage error", err)
	}
}

func TestExplainAndDiff(t *testing.T) {
	const job = `apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {rollcall.training/framework: pytorch}}
spec:
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: trainer, image: a}]}}
`
	for name, c := range map[string]struct {
		args     []string
		stdin    string
		wantCode int
		want     []string
	}{
		"explain a file": {
			args: []string{"explain", "-f", "-"}, stdin: job,
			want: []string{
				"job/train: worker of pytorch, 2 of 2 pods\n", "From pytorch:\n", "From every gang:\n",
				"variable WORLD_SIZE: 2\n      the number of ranks; another value: rejected, unless",
			},
		},
		"explain a framework":          {args: []string{"explain", "mpi"}, want: []string{"launcher of mpi", "Secret train"}},
		"explain nothing":              {args: []string{"explain"}, wantCode: exitUsage},
		"explain an unknown framework": {args: []string{"explain", "caffe"}, wantCode: exitUsage},
		"explain a workload that is denied": {
			args: []string{"explain", "-f", "-"}, stdin: strings.Replace(job, "name: train,", "name: Train,", 1), wantCode: 1,
		},
		"explain a file without a label": {
			args: []string{"explain", "-f", "-"}, stdin: strings.Replace(job, "/framework", "/role", 1), wantCode: exitUsage,
		},
		"diff of a new workload": {
			args: []string{"diff", "-f", "-"}, stdin: job, wantCode: 1,
			want: []string{
				"--- manifest\n+++ admitted\n", "+  completionMode: Indexed\n", "injected: record of the injection\n",
			},
		},
		"diff without a change": {
			args: []string{"diff", "-f", "-"}, stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := runCommand(t, c.stdin, c.args...)
			code := 0
			if err != nil {
				code = exitCode(err)
			}
			if code != c.wantCode {
				t.Errorf("exit code %d, want %d: %v", code, c.wantCode, err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
		})
	}
}
