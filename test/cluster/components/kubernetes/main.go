// Command kubernetes is a complete Kubernetes in one program: the control plane, the two daemons of
// a node, kubectl, and etcd. The name of the program or else its first argument selects the
// component, as in busybox:
//
//	ln -s kubernetes kubectl && ./kubectl version
//	./kubernetes kube-apiserver --version
//
// The components share most of their code. One program needs a fifth of the space of eight
// programs. It is linked only once, which keeps the build short on two cores.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones must not depend on the machine.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // Credential plugins, for kubectl.
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Client metrics on each /metrics.
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info on each /metrics.
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps the usual name of each program to its main function. Each function creates its
// command only when it is called. Commands register flags and metrics globally, and those of two
// programs would conflict.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubelet":                 func() int { return cli.Run(newKubelet()) },
	"kubectl":                 runKubectl,
}

func runKubectl() int {
	beforeKubectl()
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

func main() {
	run, ok := programs[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		run, ok = programs[os.Args[0]]
	}
	if !ok {
		var names []string
		for name := range programs {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "the name or the first argument must be one of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
