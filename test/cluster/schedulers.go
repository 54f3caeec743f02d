package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// CoschedulingSchedulerName is the schedulerName of pods for the scheduler that [Cluster.StartCoscheduling] runs.
const CoschedulingSchedulerName = "scheduler-plugins-scheduler"

const volcanoModule = "volcano.sh/volcano"

var (
	coschedulingOperator = operator{
		component: component{
			name: "coscheduling", module: "sigs.k8s.io/scheduler-plugins", mainPackage: ".",
			linkerVariables: func(version string) []string {
				return kubernetesVersionVariables("v1." + strings.TrimPrefix(version, "v0.")) // v0.33.5 is for Kubernetes 1.33
			},
		},
		manifests: []string{"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"},
		config: `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %s}
profiles:
- schedulerName: ` + CoschedulingSchedulerName + `
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}
`,
	}
	volcanoOperator = operator{
		component: component{
			name: "volcano-scheduler", dir: "volcano", module: volcanoModule, mainPackage: volcanoModule + "/cmd/scheduler",
		},
		manifests: []string{"config/crd/volcano/bases/*.yaml"},
	}
	volcanoControllerComponent = component{
		name: "volcano-controller-manager", dir: "volcano", module: volcanoModule,
		mainPackage: volcanoModule + "/cmd/controller-manager",
	}
	yuniKornComponent = component{
		name: "yunikorn", module: "github.com/apache/yunikorn-k8shim",
		mainPackage: "github.com/apache/yunikorn-k8shim/pkg/cmd/shim",
	}
)

// StartCoscheduling runs kube-scheduler with the plugin Coscheduling as a second scheduler. The first call
// builds it. It stops with the cluster.
func (c *Cluster) StartCoscheduling(ctx context.Context) error {
	path, err := c.installScheduler(ctx, coschedulingOperator)
	if err != nil {
		return err
	}
	file := filepath.Join(c.dir, "coscheduling.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, coschedulingOperator.config, c.Kubeconfig()), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of coscheduling: %w", err)
	}
	return c.startProgram(program{Name: "coscheduling", Path: path, Args: []string{
		"--config=" + file, "--secure-port=0",
		// The plugin does not retry pods that it rejected when other pods are deleted (EventsToRegister). The default of
		// 5 minutes after which kube-scheduler retries them would make each test as long.
		"--pod-max-in-unschedulable-pods-duration=10s",
	}})
}

// StartVolcano runs the scheduler of Volcano as a second scheduler, and its controllers of queues and PodGroups. It
// returns when the default queue is open. The first call builds both. They stop with the cluster.
func (c *Cluster) StartVolcano(ctx context.Context) error {
	path, err := c.installScheduler(ctx, volcanoOperator)
	if err != nil {
		return err
	}
	controller, err := volcanoControllerComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	for _, p := range []program{
		{Name: "volcano-scheduler", Path: path, Args: []string{
			"--kubeconfig=" + c.Kubeconfig(), "--leader-elect=false", "--cache-dumper=false",
		}},
		{Name: "volcano-controller-manager", Path: controller, Args: []string{
			"--kubeconfig=" + c.Kubeconfig(), "--leader-elect=false", "--controllers=queue-controller,pg-controller",
		}},
	} {
		if err := c.startProgram(p); err != nil {
			return err
		}
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	queues := client.Resource(schema.GroupVersionResource{
		Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues",
	})
	return c.waitUntilReady(ctx, volcanoControllerComponent.name, startTimeout, func(ctx context.Context) error {
		queue, err := queues.Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(queue.Object, "status", "state"); state != "Open" {
			return errors.New("the default queue is not open")
		}
		return nil
	})
}

// StartYuniKorn runs YuniKorn as a second scheduler, without its admission controller. The first call builds it. It
// stops with the cluster.
func (c *Cluster) StartYuniKorn(ctx context.Context) error {
	path, err := yuniKornComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	if err := c.linkKubeconfig(); err != nil {
		return err
	}
	return c.startProgram(program{Name: yuniKornComponent.name, Path: path})
}

// linkKubeconfig provides the configuration of kubectl in the home directory of the programs, for schedulers without a
// flag for the file.
func (c *Cluster) linkKubeconfig() error {
	config := filepath.Join(c.dir, ".kube", "config")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		return fmt.Errorf("creating the directory for the kubeconfig: %w", err)
	}
	if err := os.Symlink(c.Kubeconfig(), config); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("linking the kubeconfig: %w", err)
	}
	return nil
}

// installScheduler builds a scheduler, installs its CustomResourceDefinitions, and returns the path of the program.
func (c *Cluster) installScheduler(ctx context.Context, o operator) (string, error) {
	path, err := o.ensureBinary(ctx, c.progress)
	if err != nil {
		return "", err
	}
	module, err := o.findModuleDir(ctx)
	if err != nil {
		return "", err
	}
	manifests, err := o.findManifests(module)
	if err != nil {
		return "", err
	}
	if err := c.installOperator(ctx, o, manifests, "", nil); err != nil {
		return "", err
	}
	return path, c.WaitForDefinitions(ctx)
}
