// Command kubernetes is a whole Kubernetes in one program: the control plane, the node's two daemons, kubectl, and
// the etcd that stores it all. Which of them runs is decided by the name it is called by, or else by its first
// argument, as busybox does it:
//
//	ln -s kubernetes kubectl && ./kubectl version
//	./kubernetes kube-apiserver --version
//
// One program instead of eight because they share nearly all of their code: linked together they take a fifth of the
// space, and one link instead of eight is what makes the build bearable on two cores.
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

// programs has each program by its usual name. Each builds its command only when it is called: building one
// registers flags and metrics globally, and those of two programs would collide.
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
		fmt.Fprintf(os.Stderr, "call me by one of these names, or give one first: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
