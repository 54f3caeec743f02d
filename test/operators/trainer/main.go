// Trainer records the objects that github.com/kubeflow/trainer creates for TrainJobs, and that
// sigs.k8s.io/jobset creates for JobSets.
//
// One program records both, because trainer creates a JobSet for each TrainJob: the program runs
// trainer and then JobSet. It runs the webhooks and reconcilers of both projects on objects in
// memory, with the defaults of their flags and feature gates.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/test/operators/recording"
)

const (
	trainerModule = "github.com/kubeflow/trainer/v2"
	jobSetModule  = "sigs.k8s.io/jobset"
)

func main() {
	ctx := context.Background()
	log.SetLogger(logr.Discard())
	o, err := newOperators(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	recording.Main(ctx, o.record, "trainjob", "jobset")
}

// operators holds the manifests that both projects ship.
type operators struct {
	trainer, jobSet recording.Definitions
	// runtimes are the ClusterTrainingRuntimes that trainer installs.
	runtimes []*unstructured.Unstructured
}

func newOperators(ctx context.Context) (*operators, error) {
	trainerDir, err := recording.ModuleDir(ctx, trainerModule)
	if err != nil {
		return nil, err
	}
	jobSetDir, err := recording.ModuleDir(ctx, jobSetModule)
	if err != nil {
		return nil, err
	}
	o := &operators{}
	if o.trainer, err = recording.ReadDefinitions(
		filepath.Join(trainerDir, "manifests/base/crds/trainer.kubeflow.org_*.yaml"),
	); err != nil {
		return nil, err
	}
	if o.jobSet, err = recording.ReadDefinitions(
		filepath.Join(jobSetDir, "config/components/crd/bases/*.yaml"),
	); err != nil {
		return nil, err
	}
	for _, pattern := range []string{"*.yaml", "*/*.yaml", "*/*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(trainerDir, "manifests/base/runtimes", pattern))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			objects, err := recording.ReadManifest(f)
			if err != nil {
				return nil, err
			}
			for _, r := range objects {
				if r.GetKind() == "ClusterTrainingRuntime" {
					o.runtimes = append(o.runtimes, r)
				}
			}
		}
	}
	if len(o.runtimes) == 0 {
		return nil, errors.New("trainer contains no runtimes in the expected directory")
	}
	return o, nil
}

// record records a manifest with one TrainJob and optionally its runtime, or with one JobSet.
func (o *operators) record(ctx context.Context, objects []*unstructured.Unstructured) (*recording.Recording, error) {
	if len(objects) == 1 && objects[0].GetKind() == "JobSet" {
		r := recording.New(recording.Operator(jobSetModule), nil, nil)
		return r, o.runJobSet(ctx, objects[0], r)
	}
	var job *unstructured.Unstructured
	runtimes := o.runtimes
	for _, object := range objects {
		if object.GetKind() != "TrainJob" {
			runtimes = append(runtimes[:len(runtimes):len(runtimes)], object)
			continue
		}
		if job != nil {
			return nil, errors.New("more than one TrainJob")
		}
		job = object
	}
	if job == nil {
		return nil, errors.New("neither a JobSet nor a TrainJob")
	}
	r := recording.New(recording.Operator(trainerModule), nil, nil)
	jobSet, err := o.runTrainJob(ctx, job, runtimes, r)
	if err != nil {
		return nil, err
	}
	return r, o.runJobSet(ctx, jobSet, r)
}
