// Mpi-operator records the objects that github.com/kubeflow/mpi-operator creates for MPIJobs of
// kubeflow.org/v2beta1.
//
// It runs the controller with the defaults of its flags on clientsets in memory, until the launcher
// exists and the host discovery script lists every running worker.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"rollcall.training/test/operators/recording"
)

const module = "github.com/kubeflow/mpi-operator"

// timeout is how long the controller may take for one job. It takes milliseconds. For a job that it
// rejects, it would take forever.
const timeout = 20 * time.Second

func main() {
	ctx := context.Background()
	klog.SetLogger(logr.Discard())
	dir, err := recording.ModuleDir(ctx, module)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	definitions, err := recording.ReadDefinitions(filepath.Join(dir, "manifests/base/kubeflow.org_mpijobs.yaml"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	record := func(ctx context.Context, objects []*unstructured.Unstructured) (*recording.Recording, error) {
		if len(objects) != 1 {
			return nil, fmt.Errorf("want one object, got %d", len(objects))
		}
		if err := definitions.Default(objects[0]); err != nil {
			return nil, err
		}
		job := &v2beta1.MPIJob{}
		if err := recording.Strict(objects[0], job); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return runController(ctx, job)
	}
	recording.Main(ctx, record, "mpijob-v2beta1")
}
