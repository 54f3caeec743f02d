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
	"rollcall.training/plan"
)

const (
	// root is the repository, seen from the module that make runs this in.
	root = ".."

	release          = "rollcall"
	releaseNamespace = "rollcall-system"
	example          = "examples/pytorch"
	exampleJob       = "all-reduce"
	// exampleImage is the image that the example names.
	exampleImage = "rollcall.training/pytorch-cpu"
)

// run is the whole demo.
func run(ctx context.Context, w io.Writer) error {
	started := time.Now()
	find := ownPlace
	if os.Getenv(kubeconfigEnv) != "" {
		find = func(ctx context.Context, _ io.Writer) (*place, error) { return givenPlace(ctx) }
	}
	p, err := find(ctx, w)
	if err != nil {
		return err
	}
	d := demo{place: p, w: w}
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"Installing the chart", d.install},
		{"Applying " + example + ", a plain Job with one label", d.apply},
		{"Waiting for the gang", d.await},
		{"What the ranks say", d.logs},
		{"The gang's phase", d.phase},
		{"What was injected", d.injected},
	} {
		fmt.Fprintf(w, "\n== %s\n", step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(step.title[:1])+step.title[1:], err)
		}
	}
	fmt.Fprintf(w, "\nDone in %s. Look around:\n\n", time.Since(started).Round(time.Second))
	for _, line := range append(p.around,
		"kubectl get jobs -L "+gang.LabelPhase,
		"kubectl describe job "+exampleJob,
		"go run ./cmd/rollcall inject -f "+example+"/job.yaml") {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintf(w, "\nStop it:\n\n  %s\n", strings.Join(p.stop, "\n  "))
	return nil
}

type demo struct {
	*place
	w io.Writer
}

func (d demo) install(ctx context.Context) error {
	if d.manager == "" {
		fmt.Fprintln(d.w, "installed already; left as it is")
		return nil
	}
	image, err := name.ParseReference(d.manager)
	if err != nil {
		return fmt.Errorf("reading the image of the manager: %w", err)
	}
	version := "image.tag="
	if _, ok := image.(name.Digest); ok {
		version = "image.digest="
	}
	out, err := d.helm(ctx, "upgrade", "--install", release, filepath.Join(root, "charts", "rollcall"),
		"--namespace", releaseNamespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set-string", "image.repository="+image.Context().Name(), "--set-string", version+image.Identifier(),
		"--set-string", "podAnnotations.build="+d.build)
	if err != nil {
		pods, _ := d.kubectl(ctx, "--namespace", releaseNamespace, "get", "pods,events")
		return fmt.Errorf("%w\n%s", err, pods)
	}
	first, _, _ := strings.Cut(out, "NOTES:")
	fmt.Fprintln(d.w, strings.TrimSpace(first))
	return nil
}

// apply applies the example as it stands, but for the image, which is the place's.
func (d demo) apply(ctx context.Context) error {
	base, err := filepath.Abs(filepath.Join(root, example))
	if err != nil {
		return fmt.Errorf("finding the example: %w", err)
	}
	dir, err := os.MkdirTemp("", "rollcall-demo-")
	if err != nil {
		return fmt.Errorf("making an overlay: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a few bytes in the folder for such things
	if base, err = filepath.Rel(dir, base); err != nil {
		return fmt.Errorf("making an overlay: %w", err)
	}
	image, err := name.ParseReference(d.training)
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
		return fmt.Errorf("making an overlay: %w", err)
	}
	if _, err := d.kubectl(ctx, "delete", "-k", dir, "--ignore-not-found", "--timeout=2m"); err != nil {
		return err
	}
	out, err := d.kubectl(ctx, "apply", "-k", dir)
	fmt.Fprint(d.w, out)
	return err
}

func (d demo) await(ctx context.Context) error {
	began := time.Now()
	const condition = "GangSucceeded"
	if _, err := d.kubectl(ctx, "wait", "job/"+exampleJob, "--for=condition="+condition, "--timeout=5m"); err != nil {
		events, _ := d.kubectl(ctx, "get", "pods,events")
		return fmt.Errorf("%w\n%s", err, events)
	}
	fmt.Fprintf(d.w, "%s after %s\n", condition, time.Since(began).Round(100*time.Millisecond))
	return nil
}

func (d demo) logs(ctx context.Context) error {
	out, err := d.kubectl(ctx, "logs", "--selector", gang.LabelGang+"="+exampleJob, "--prefix", "--tail=-1")
	fmt.Fprint(d.w, out)
	return err
}

func (d demo) phase(ctx context.Context) error {
	out, err := d.kubectl(ctx, "get", "job", exampleJob, "-L", gang.LabelFramework, "-L", gang.LabelPhase)
	fmt.Fprint(d.w, out)
	return err
}

// injected lists the variables of the training container that Rollcall added.
func (d demo) injected(ctx context.Context) error {
	out, err := d.kubectl(ctx, "get", "job", exampleJob, "-o", "json")
	if err != nil {
		return err
	}
	var job batchv1.Job
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		return fmt.Errorf("reading the Job: %w", err)
	}
	record, err := plan.ReadRecord(gang.Workload{Job: &job})
	if err != nil {
		return err
	}
	if record == nil {
		return fmt.Errorf("the Job has no annotation %s: nothing was injected", gang.AnnotationInjected)
	}
	c := job.Spec.Template.Spec.Containers[0]
	ours := record.Env[c.Name]
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
		}
		if _, ok := ours[e.Name]; ok {
			fmt.Fprintf(d.w, "env     %s=%s\n", e.Name, value)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(record.Fields)) {
		fmt.Fprintf(d.w, "field   spec.%s=%s\n", f, record.Fields[f])
	}
	for v := range record.Volumes {
		fmt.Fprintf(d.w, "volume  %s\n", v)
	}
	return nil
}
