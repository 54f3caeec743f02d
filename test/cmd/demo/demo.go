package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/test/installation"
)

const (
	// repositoryRoot is the path of the repository from the module in which make runs this program.
	repositoryRoot = ".."

	examplePath = "examples/pytorch"
	exampleJob  = "all-reduce"
	// exampleImage is the image in the manifest of the example.
	exampleImage = "pytorch/pytorch"
)

// runDemo runs all steps of the demo and prints how to continue.
func runDemo(ctx context.Context, w io.Writer) error {
	started := time.Now()
	find := startDemoCluster
	if os.Getenv(kubeconfigEnv) != "" {
		find = useExistingCluster
	}
	p, err := find(ctx, w)
	if err != nil {
		return err
	}
	d := demo{demoCluster: p, w: w}
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"Installing the chart", d.installChart},
		{"Applying " + examplePath + ", a plain Job with one label", d.applyExample},
		{"Waiting for the gang", d.waitForSuccess},
		{"Output of the ranks", d.printLogs},
		{"Phase of the gang", d.printPhase},
		{"Injected fields", d.printInjectedFields},
		{"Applying a Job with a mistake", d.applyMistake},
		{"Killing rank " + killedRank, d.killRank},
		{"Waiting for the restart of all ranks", d.waitForRestart},
		{"Status of the gangs", d.printStatus},
	} {
		fmt.Fprintf(w, "\n== %s\n", step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(step.title[:1])+step.title[1:], err)
		}
	}
	fmt.Fprintf(w, "\nDone in %s. Inspect it:\n\n", time.Since(started).Round(time.Second))
	for _, line := range append(p.exploreCommands,
		"kubectl get jobs -L "+gang.LabelPhase,
		"kubectl describe job "+trainJob,
		"rollcall status "+trainJob,
		"rollcall inject -f "+examplePath+"/job.yaml") {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintf(w, "\nStop it:\n\n  %s\n", strings.Join(p.stopCommands, "\n  "))
	return nil
}

type demo struct {
	*demoCluster
	w io.Writer
}

func (d demo) installChart(ctx context.Context) error {
	if d.managerImage == "" {
		fmt.Fprintln(d.w, "Rollcall is already installed and stays unchanged")
		return nil
	}
	image, err := name.ParseReference(d.managerImage)
	if err != nil {
		return fmt.Errorf("reading the image of the manager: %w", err)
	}
	version := "image.tag="
	if _, ok := image.(name.Digest); ok {
		version = "image.digest="
	}
	out, err := d.runHelm(ctx, "upgrade", "--install", installation.Release, filepath.Join(
		repositoryRoot, "charts", "rollcall",
	),
		"--namespace", installation.Namespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set-string", "image.repository="+image.Context().Name(), "--set-string", version+image.Identifier(),
		"--set-string", "podAnnotations.build="+d.managerBuildID)
	if err != nil {
		pods, _ := d.runKubectl(ctx, "--namespace", installation.Namespace, "get", "pods,events")
		return fmt.Errorf("%w\n%s", err, pods)
	}
	first, _, _ := strings.Cut(out, "NOTES:")
	fmt.Fprintln(d.w, strings.TrimSpace(first))
	return nil
}

// applyExample applies the unmodified example with the training image of the cluster.
func (d demo) applyExample(ctx context.Context) error {
	base, err := filepath.Abs(filepath.Join(repositoryRoot, examplePath))
	if err != nil {
		return fmt.Errorf("finding the example: %w", err)
	}
	dir, err := os.MkdirTemp("", "rollcall-demo-")
	if err != nil {
		return fmt.Errorf("creating an overlay: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a few bytes in the directory for temporary files
	if base, err = filepath.Rel(dir, base); err != nil {
		return fmt.Errorf("creating an overlay: %w", err)
	}
	image, err := name.ParseReference(d.trainingImage)
	if err != nil {
		return fmt.Errorf("reading the training image: %w", err)
	}
	version := "newTag"
	if _, ok := image.(name.Digest); ok {
		version = "digest"
	}
	overlay := fmt.Sprintf("resources: [%s]\nimages: [{name: %s, newName: %s, %s: %q}]\n",
		base, exampleImage, image.Context().Name(), version, image.Identifier())
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		return fmt.Errorf("creating an overlay: %w", err)
	}
	if _, err := d.runKubectl(ctx, "delete", "-k", dir, "--ignore-not-found", "--timeout=2m"); err != nil {
		return err
	}
	out, err := d.runKubectl(ctx, "apply", "-k", dir)
	fmt.Fprint(d.w, out)
	return err
}

func (d demo) waitForSuccess(ctx context.Context) error { return d.waitForGang(ctx, exampleJob) }

// waitForGang waits until a gang succeeds.
func (d demo) waitForGang(ctx context.Context, job string) error {
	began := time.Now()
	const condition = "GangSucceeded"
	if _, err := d.runKubectl(ctx, "wait", "job/"+job, "--for=condition="+condition, "--timeout=5m"); err != nil {
		events, _ := d.runKubectl(ctx, "get", "pods,events")
		return fmt.Errorf("%w\n%s", err, events)
	}
	fmt.Fprintf(d.w, "%s after %s\n", condition, time.Since(began).Round(100*time.Millisecond))
	return nil
}

func (d demo) printLogs(ctx context.Context) error {
	out, err := d.runKubectl(ctx, "logs", "--selector", gang.LabelGang+"="+exampleJob, "--prefix", "--tail=-1")
	fmt.Fprint(d.w, out)
	return err
}

func (d demo) printPhase(ctx context.Context) error {
	out, err := d.runKubectl(ctx, "get", "job", exampleJob, "-L", gang.LabelFramework, "-L", gang.LabelPhase)
	fmt.Fprint(d.w, out)
	return err
}

// printInjectedFields prints the environment variables, fields and volumes that Rollcall added to
// the Job.
func (d demo) printInjectedFields(ctx context.Context) error {
	out, err := d.runKubectl(ctx, "get", "job", exampleJob, "-o", "json")
	if err != nil {
		return err
	}
	var job batchv1.Job
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		return fmt.Errorf("reading the Job: %w", err)
	}
	record, err := injection.ReadRecord(gang.Workload{Job: &job})
	if err != nil {
		return err
	}
	if record == nil {
		return fmt.Errorf("the Job has no annotation %s: Rollcall did not inject it", gang.AnnotationInjected)
	}
	c := job.Spec.Template.Spec.Containers[0]
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
		}
		if record.Has(injection.KindEnv, c.Name, e.Name) {
			fmt.Fprintf(d.w, "env     %s=%s\n", e.Name, value)
		}
	}
	fields := record.ByName(injection.KindField)
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(d.w, "field   spec.%s=%s\n", f, fields[f])
	}
	for v := range record.ByName(injection.KindVolume) {
		fmt.Fprintf(d.w, "volume  %s\n", v)
	}
	return nil
}
