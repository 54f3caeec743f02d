package volcano

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// templates sees to what a gang's pods must not have, and to what Volcano changed in
// its own.
func (r *reader) templates() {
	for i := range r.blueprint.Roles {
		role := &r.blueprint.Roles[i]
		r.names(role)
		r.overwritten(role)
		r.identity(role)
		r.containers(role)
		if role.Name == roleWorker && role.Set {
			r.daemon(role)
		}
		spec := &role.Template.Spec
		if spec.HostNetwork && spec.DNSPolicy == "" { // as Volcano's webhook does
			spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		r.dependsOn(r.tasks[i], role)
	}
}

// names drops the names that a template gives to all of its pods.
func (r *reader) names(role *blueprint.Role) {
	spec := &role.Template.Spec
	if spec.Hostname != "" {
		role.Node.At("spec", "hostname").Lost("every rank has a hostname of its own",
			fmt.Sprintf("call the pods by their own names where the manifest has %s", spec.Hostname))
		spec.Hostname = ""
	}
	if spec.Subdomain != "" && spec.Subdomain != r.blueprint.Name {
		role.Node.At("spec", "subdomain").Lost("the ranks of a gang are hosts in the Service that is named after the gang",
			fmt.Sprintf("write .%s where the manifest has .%s after a pod's name", r.blueprint.Name, spec.Subdomain))
	}
	spec.Subdomain = ""
}

// overwrites are the variables that each plugin appends whatever the user wrote, so that
// its own win.
func (r *reader) overwrites(role string) []string {
	var names []string
	if r.has("env") {
		names = append(names, indexNames...)
	}
	if r.hostsInEnv {
		for _, t := range r.tasks {
			names = append(names, hostsName(t.name), numName(t.name))
		}
	}
	switch name := r.framework.name; {
	case name == "mpi" && r.has(name) && role == roleLauncher:
		names = append(names, mpiHost)
	case name == "pytorch" && r.has(name):
		names = append(names, "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
	case name == "tensorflow" && r.has(name):
		names = append(names, "TF_CONFIG")
	}
	return names
}

// overwritten drops the variables that a plugin overwrote: they never had an effect, and
// would have one now.
func (r *reader) overwritten(role *blueprint.Role) {
	names := r.overwrites(role.Name)
	r.drop(role, func(e corev1.EnvVar) (string, string, bool) {
		return fmt.Sprintf("left out: Volcano's plugin overwrote %s, so this value never reached the program, and Rollcall would heed it", e.Name),
			"set it again on the new workload if it is what you want", slices.Contains(names, e.Name)
	})
}

// identity drops the variables by which the user told each rank its place, where there
// was no plugin to do it: Rollcall does, and refuses another value.
func (r *reader) identity(role *blueprint.Role) {
	r.drop(role, func(e corev1.EnvVar) (string, string, bool) {
		do := ""
		switch e.Name {
		case "MASTER_PORT":
			r.portOf(e.Value)
		case "WORLD_SIZE":
			do = "set " + gang.AnnotationNproc + " if the value counted processes and not pods"
		}
		return fmt.Sprintf("left out: Rollcall sets %s in every rank", e.Name), do, slices.Contains(r.framework.own, e.Name)
	})
}

// portOf takes the rendezvous port from a variable.
func (r *reader) portOf(value string) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < leastPort || n > mostPort || int32(n) == r.framework.port || r.blueprint.Keys[gang.AnnotationPort] != "" {
		return
	}
	r.set(gang.AnnotationPort, value)
}

// drop takes variables out of all containers of a role, and says why.
func (r *reader) drop(role *blueprint.Role, which func(e corev1.EnvVar) (reason, do string, ok bool)) {
	lists := map[string][]corev1.Container{"initContainers": role.Template.Spec.InitContainers, "containers": role.Template.Spec.Containers}
	for _, list := range []string{"initContainers", "containers"} {
		for i := range lists[list] {
			c := &lists[list][i]
			kept := c.Env[:0:0]
			for _, e := range c.Env {
				reason, do, ok := which(e)
				if !ok {
					kept = append(kept, e)
					continue
				}
				role.Node.At("spec", list).Items()[i].Get("env").Note(e.Name+": "+reason, do)
			}
			c.Env = kept
		}
	}
}

// containers says which container trains, where there are several: Volcano's plugins
// set the variables of a framework in all of them.
func (r *reader) containers(role *blueprint.Role) {
	all := role.Template.Spec.Containers
	if len(all) < 2 {
		return
	}
	role.Node.At("spec", "containers").Note(fmt.Sprintf("container %s is taken for the one that trains, and gets the variables of the framework alone", all[0].Name),
		"name others with "+gang.AnnotationContainer)
}

// daemonOnly are the statements of a command that does nothing but run sshd.
var daemonOnly = regexp.MustCompile(`^(set [-+]\w+|mkdir -p /(var/)?run/sshd|ssh-keygen -A|service ssh start|tail -f /dev/null|sleep (infinity|inf)|(exec )?(/usr/sbin/)?sshd( -[De]+)*)?$`)

var daemonStart = regexp.MustCompile(`\bsshd\b|service ssh start`)

// daemon drops a worker's command that does nothing but run sshd, so that it runs the
// gang's, which knows its keys.
func (r *reader) daemon(role *blueprint.Role) {
	if len(role.Template.Spec.Containers) == 0 {
		return
	}
	c := &role.Template.Spec.Containers[0]
	words := append(slices.Clone(c.Command), c.Args...)
	if len(words) >= 3 && slices.Contains([]string{"sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash"}, words[0]) && words[1] == "-c" {
		words = words[2:3]
	}
	script := strings.Join(words, " ")
	if !daemonStart.MatchString(script) {
		return
	}
	for _, statement := range regexp.MustCompile(`[;\n]|&&`).Split(script, -1) {
		if !daemonOnly.MatchString(strings.Join(strings.Fields(statement), " ")) {
			role.Node.At("spec", "containers").Items()[0].Note("the command starts sshd itself, and does more; it reads the gang's configuration and listens where ssh looks for it, if it names none of its own",
				"leave the command out if the worker needs nothing but sshd")
			return
		}
	}
	n := role.Node.At("spec", "containers").Items()[0]
	for _, field := range []string{"command", "args"} {
		n.Get(field).Changed("", "left out: it does nothing but run sshd, and a worker without a command runs the gang's, with the gang's keys", "")
	}
	c.Command, c.Args = nil, nil
	probes(n, c)
}

// probes have the kubelet ask where the gang's sshd listens.
func probes(n ledger.Node, c *corev1.Container) {
	for field, probe := range map[string]*corev1.Probe{"readinessProbe": c.ReadinessProbe, "livenessProbe": c.LivenessProbe, "startupProbe": c.StartupProbe} {
		if probe == nil || probe.TCPSocket == nil {
			continue
		}
		port := probe.TCPSocket.Port
		named := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal && p.ContainerPort == sshPort })
		if port.IntVal == sshPort || port.Type == intstr.String && named {
			probe.TCPSocket.Port = intstr.FromInt32(sshdPort)
			n.Get(field).Get("tcpSocket").Get("port").Changed(fmt.Sprint(sshdPort), "the gang's sshd listens there", "")
		}
	}
}

// dependsOn reads which tasks have to run before this one is begun.
func (r *reader) dependsOn(t task, role *blueprint.Role) {
	n := t.node.Get("dependsOn")
	if role.Name == roleLauncher {
		n.Changed("", "all pods are made at once; the launcher's program begins when all workers answer", "")
		return
	}
	n.Lost("all pods of a gang are made at once, and meet in their framework's rendezvous", "let the program wait for what it needs")
}
