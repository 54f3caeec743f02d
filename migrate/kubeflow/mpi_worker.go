package kubeflow

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// sshdPort is where Rollcall's sshd listens (injectors/ssh, Port).
const sshdPort = 2222

// serve leaves the worker's command to Rollcall where it only waits or runs sshd: a
// worker without a command runs Rollcall's own sshd. A probe of sshd's port follows.
func (r *reader) serve(worker *blueprint.Role) {
	spec := &worker.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == worker.Keys[gang.AnnotationContainer] })
	at = max(0, at)
	c, n := &spec.Containers[at], worker.Node.At("spec", "containers").Item(at)
	if len(c.Command)+len(c.Args) > 0 {
		if !idle(slices.Concat(c.Command, c.Args)) {
			n.Get("command").Remark(ledger.Lost, "", "the command is kept, and with it the launcher does not reach the worker: it waits for an sshd that has the gang's keys",
				"end the command with: exec /bin/sh /etc/rollcall/ssh/sshd; or remove it, and Rollcall runs sshd")
			return
		}
		c.Command, c.Args = nil, nil
		const reason = "left out: it waits or runs sshd, and Rollcall runs an sshd of its own in a worker without a command"
		n.Get("command").Changed("", reason, "")
		n.Get("args").Changed("", reason, "")
	}
	for name, probe := range map[string]*corev1.Probe{"readinessProbe": c.ReadinessProbe, "livenessProbe": c.LivenessProbe, "startupProbe": c.StartupProbe} {
		if probe != nil && probe.TCPSocket != nil {
			r.probe(n.At(name, "tcpSocket", "port"), probe, c.Ports)
		}
	}
}

// probe has a probe ask where sshd listens.
func (r *reader) probe(n ledger.Node, probe *corev1.Probe, ports []corev1.ContainerPort) {
	have := probe.TCPSocket.Port
	if have.Type == intstr.String {
		i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == have.StrVal })
		if i < 0 {
			return
		}
		have = intstr.FromInt32(ports[i].ContainerPort)
	}
	if have.IntVal == sshdPort {
		return
	}
	probe.TCPSocket.Port = intstr.FromInt32(sshdPort)
	n.Changed(fmt.Sprint(sshdPort), "it was the port of another sshd; Rollcall's listens there", "")
}

// idle reports whether a command does nothing but wait, or run sshd.
func idle(words []string) bool {
	name := path.Base(words[0])
	switch name {
	case "sh", "bash", "dash", "ash":
		script, ok := inline(words[1:])
		if !ok {
			return false
		}
		for _, statement := range strings.FieldsFunc(strings.ReplaceAll(script, "&&", ";"), func(c rune) bool { return c == ';' || c == '\n' || c == '&' || c == '|' }) {
			if !idleStatement(strings.Fields(statement)) {
				return false
			}
		}
		return true
	default:
		return idleStatement(words)
	}
}

// inline is the script that a shell is given by -c.
func inline(words []string) (string, bool) {
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "-") && strings.Contains(w, "c") && !strings.HasPrefix(w, "--"):
			rest := slices.DeleteFunc(slices.Clone(words[i+1:]), func(s string) bool { return s == "--" })
			return strings.Join(rest[:min(1, len(rest))], ""), len(rest) > 0
		case strings.HasPrefix(w, "-"):
		default:
			return "", false
		}
	}
	return "", false
}

// idleStatement knows the statements of which such scripts are made.
func idleStatement(words []string) bool {
	for len(words) > 0 && slices.Contains([]string{"exec", "do", "while", "true", ":", "done", "sudo", "set", "-e", "-x", "-ex"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return true
	}
	line := strings.Join(words, " ")
	switch path.Base(words[0]) {
	case "sleep", "sshd", "pause":
		return true
	case "tail":
		return strings.HasSuffix(line, "/dev/null")
	case "mkdir", "chmod", "chown":
		return strings.Contains(line, "sshd") || strings.Contains(line, ".ssh")
	case "ssh-keygen":
		return line == words[0]+" -A"
	case "service", "ssh", "rc-service":
		return strings.HasSuffix(line, "ssh start") || strings.HasSuffix(line, "sshd start") || line == "/etc/init.d/ssh start"
	}
	return false
}
