package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rollcall.training/gang"
)

const (
	trainJob = "train"
	// killedRank is the rank that the demo kills.
	killedRank = "1"
	// imagePlaceholder is the image in the manifest.
	imagePlaceholder = exampleImage + ":2.6.0-cuda12.4-cudnn9-runtime"
	// mistake is the line of the manifest that admission denies, and fix is what the error advises.
	mistake = "  parallelism: 2\n"
	fix     = "  parallelism: 3\n"
	// killCommand kills all processes of a container except process 1.
	killCommand = "kill -9 -1"
)

//go:embed train.yaml
var trainManifest string

// applyMistake applies a Job with a mistake and prints the error of admission. Then it fixes the
// mistake as the error advises.
func (d demo) applyMistake(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rollcall-demo-")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a few bytes in the directory for temporary files
	file := filepath.Join(dir, "train.yaml")
	manifest := strings.Replace(trainManifest, imagePlaceholder, d.trainingImage, 1)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if _, err := d.runKubectl(ctx, "delete", "-f", file, "--ignore-not-found", "--timeout=2m"); err != nil {
		return err
	}
	_, err = d.runKubectl(ctx, "apply", "-f", file)
	if err == nil {
		return errors.New("admission accepted a Job with 3 completions and a parallelism of 2")
	}
	fmt.Fprintln(d.w, findDenial(err))
	fmt.Fprintln(d.w, "\nWith the value from the error, parallelism: 3:")
	if err := os.WriteFile(file, []byte(strings.Replace(manifest, mistake, fix, 1)), 0o600); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	out, err := d.runKubectl(ctx, "apply", "-f", file)
	fmt.Fprint(d.w, out)
	return err
}

// findDenial returns what kubectl printed, which an error contains after the exit status.
func findDenial(err error) string {
	_, text, found := strings.Cut(err.Error(), "exit status 1")
	if !found {
		return err.Error()
	}
	return strings.Trim(text, ": \n")
}

// killRank kills the program of a rank during training.
func (d demo) killRank(ctx context.Context) error {
	pod, err := d.waitForTraining(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.w, "kubectl exec %s -- sh -c '%s'\n", pod, killCommand)
	_, err = d.runKubectl(ctx, "exec", pod, "--", "sh", "-c", killCommand)
	// The container may exit before the command does, which kills the command.
	if err != nil && !strings.Contains(err.Error(), "exit code 137") {
		return err
	}
	return nil
}

// waitForTraining returns the pod of the rank to kill as soon as it has finished a step.
func (d demo) waitForTraining(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		pod, err := d.runKubectl(ctx, "get", "pods", "--output=name", "--selector="+
			gang.LabelGang+"="+trainJob+",batch.kubernetes.io/job-completion-index="+killedRank)
		if err != nil {
			return "", err
		}
		if pod = strings.TrimSpace(pod); pod != "" {
			// An error means that the container has not started.
			if log, err := d.runKubectl(ctx, "logs", pod); err == nil && strings.Contains(log, "step 1") {
				return pod, nil
			}
		}
		select {
		case <-ctx.Done():
			events, _ := d.runKubectl(context.WithoutCancel(ctx), "get", "pods,events")
			return "", fmt.Errorf("rank %s does not train: %w\n%s", killedRank, ctx.Err(), events)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// waitForRestart waits until the restarted gang succeeds, and prints its last steps.
func (d demo) waitForRestart(ctx context.Context) error {
	if err := d.waitForGang(ctx, trainJob); err != nil {
		return err
	}
	out, err := d.runKubectl(ctx, "logs", "--selector="+gang.LabelGang+"="+trainJob, "--prefix", "--tail=1")
	fmt.Fprint(d.w, out)
	return err
}

// printStatus prints the restart and the first failure of the gang, and then all gangs.
func (d demo) printStatus(ctx context.Context) error {
	for _, args := range [][]string{{"status", trainJob}, {"status"}} {
		fmt.Fprintf(d.w, "rollcall %s\n\n", strings.Join(args, " "))
		out, err := d.runRollcall(ctx, args...)
		fmt.Fprintln(d.w, out)
		if err != nil {
			return err
		}
	}
	return nil
}
