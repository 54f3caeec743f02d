package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/vet"
)

// trainingContainer is the name of the container in a Job that run creates.
const trainingContainer = "trainer"

// runOptions are the flags of rollcall run.
type runOptions struct {
	cluster     clusterFlags
	framework   string
	image       string
	size, gpus  int32
	env         []string
	annotations []string
	dryRun      bool
	watch       bool

	// program is the name of the program in messages: "rollcall" or "kubectl rollcall".
	program string
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := newCommand("run", func(cmd *cobra.Command, args []string) error {
		o.program = cmd.Root().DisplayName()
		job, err := o.buildJob(args, cmd.ArgsLenAtDash())
		if err != nil {
			return newUsageError(err)
		}
		return o.run(cmd.Context(), job, o.cluster.newReader, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	o.cluster.addFlags(cmd)
	addChoiceFlag(cmd, &o.framework, "framework", "", "framework", injectors.Builtin().Frameworks().Names()...)
	f := cmd.Flags()
	f.Int32Var(&o.size, "size", 0, "number of pods")
	f.StringVar(&o.image, "image", "", "image of the container")
	f.Int32Var(&o.gpus, "gpus", 0, "limit of "+gang.DefaultGPUResource+" for each pod")
	f.StringArrayVarP(&o.env, "env", "e", nil, "variable of the container as NAME=VALUE; repeatable")
	f.StringArrayVar(&o.annotations, "annotation", nil, "annotation of the Job as KEY=VALUE; repeatable")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print the Job")
	f.BoolVarP(&o.watch, "watch", "w", false, "status until the gang succeeds or fails")
	return cmd
}

// validateFlags returns an error for missing flags, and for flags that contradict each other.
func (o *runOptions) validateFlags() error {
	switch {
	case o.framework == "":
		return fmt.Errorf("--framework: required; use %s", joinAlternatives(injectors.Builtin().Frameworks().Names()))
	case o.image == "":
		return errors.New("--image: required")
	case o.size < 1:
		return errors.New("--size: must be at least 1")
	case o.gpus < 0:
		return errors.New("--gpus: must be at least 0")
	case o.dryRun && o.watch:
		return errors.New("--dry-run and --watch are mutually exclusive; use one of them")
	}
	return nil
}

// buildJob returns the Job of the flags and the arguments, of which the first dash are before "--".
func (o *runOptions) buildJob(args []string, dash int) (*batchv1.Job, error) {
	if dash < 0 {
		dash = len(args)
	}
	if dash != 1 {
		return nil, fmt.Errorf("%s run requires one name, and a command after --", o.program)
	}
	if err := o.validateFlags(); err != nil {
		return nil, err
	}
	container := corev1.Container{Name: trainingContainer, Image: o.image, Command: slices.Clone(args[1:])}
	for _, pair := range o.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--env %s: must be NAME=VALUE", pair)
		}
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	if o.gpus > 0 {
		container.Resources.Limits = corev1.ResourceList{
			gang.DefaultGPUResource: *resource.NewQuantity(int64(o.gpus), resource.DecimalSI)}
	}
	annotations := map[string]string{}
	for _, pair := range o.annotations {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--annotation %s: must be KEY=VALUE", pair)
		}
		annotations[key] = value
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: args[0], Namespace: o.cluster.namespace, Annotations: annotations,
			Labels: map[string]string{gang.LabelFramework: o.framework},
		},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion), Completions: &o.size, Parallelism: &o.size,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container},
			}},
		},
	}, nil
}

// run checks the Job, and then prints or creates it.
func (o *runOptions) run(
	ctx context.Context, job *batchv1.Job, connect func() (inspect.Reader, error), stdout, stderr io.Writer,
) error {
	doc, err := manifest.NewDocument(programName+" run", job)
	if err != nil {
		return err
	}
	if err := o.vetJob(doc, stderr); err != nil {
		return err
	}
	if o.dryRun {
		return manifest.Write(stdout, manifest.YAML, []*manifest.Document{doc})
	}
	reader, err := connect()
	if err != nil {
		return err
	}
	if err := createJob(ctx, reader, job); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Job %s created in namespace %s\n", job.Name, reader.Namespace)
	if o.watch {
		status := statusOptions{output: outputText, clock: clock.RealClock{}}
		return status.watchStatus(ctx, reader, job.Name, stdout)
	}
	arguments := job.Name + " --namespace " + reader.Namespace
	fmt.Fprintf(stdout, "Next: %s status %s --watch\n      %s logs %s --follow\n",
		o.program, arguments, o.program, arguments)
	return nil
}

// vetJob prints the findings of vet. The error reports that one is an error.
func (o *runOptions) vetJob(doc *manifest.Document, stderr io.Writer) error {
	options := vetOptions{
		engine: engineFlags{namespace: cmp.Or(o.cluster.namespace, "default"), clusterDomain: gang.DefaultClusterDomain},
		output: outputText, failOn: string(vet.Error), commandPath: o.program + " vet",
	}
	run, err := options.runOptions()
	if err != nil {
		return err
	}
	report := vet.Run([]*manifest.Document{doc}, nil, run)
	if len(report.Findings) == 0 {
		return nil
	}
	return options.printAndJudge(stderr, report, 0)
}

// createJob creates a Job that a webhook of Rollcall admits. Without the webhook, each pod would train by itself, so a
// dry run comes first.
func createJob(ctx context.Context, reader inspect.Reader, job *batchv1.Job) error {
	jobs := reader.Client.BatchV1().Jobs(reader.Namespace)
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		created, err := jobs.Create(ctx, job, metav1.CreateOptions{DryRun: dryRun, FieldManager: programName})
		if err != nil {
			return fmt.Errorf("creating Job %s: %w", job.Name, err)
		}
		if created.Annotations[gang.AnnotationInjected] == "" {
			return fmt.Errorf("creating Job %s: no webhook of Rollcall admits Jobs in namespace %s; "+
				"rollcall check finds the cause", job.Name, reader.Namespace)
		}
	}
	return nil
}
