package ir

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// SSHDPort returns the port of Rollcall's sshd, which is the rendezvous port of the framework mpi. It
// returns 0 if the framework is not available.
func SSHDPort(frameworks gang.Frameworks) int32 {
	mpi, _ := frameworks.Find("mpi")
	return mpi.Port
}

// RemoveIdleCommand removes the command of a worker, so that the worker runs Rollcall's sshd. The
// command must be idle; see [IsIdleCommand].
func RemoveIdleCommand(c *corev1.Container, f source.Field) {
	for _, name := range []string{"command", "args"} {
		f.Get(name).MarkLeftOut("it only waits or runs sshd, and a worker without a command runs Rollcall's sshd")
	}
	c.Command, c.Args = nil, nil
}

// RedirectSSHProbes points the TCP probes of a worker without a command to Rollcall's sshd, which is
// the only server in the container.
func RedirectSSHProbes(c *corev1.Container, f source.Field, frameworks gang.Frameworks) {
	probes := []struct {
		name  string
		probe *corev1.Probe
	}{{"readinessProbe", c.ReadinessProbe}, {"livenessProbe", c.LivenessProbe}, {"startupProbe", c.StartupProbe}}
	port := SSHDPort(frameworks)
	for _, p := range probes {
		if p.probe == nil || p.probe.TCPSocket == nil {
			continue
		}
		if former, ok := resolvePort(p.probe.TCPSocket.Port, c.Ports); ok && former != port {
			p.probe.TCPSocket.Port = intstr.FromInt32(port)
			f.At(p.name, "tcpSocket", "port").MarkChanged(fmt.Sprint(port), "Rollcall's sshd listens on this port", "")
		}
	}
}

// resolvePort returns the number of a port. It returns false if the container has no port of the
// name.
func resolvePort(port intstr.IntOrString, ports []corev1.ContainerPort) (int32, bool) {
	if port.Type == intstr.Int {
		return port.IntVal, true
	}
	i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
	if i < 0 {
		return 0, false
	}
	return ports[i].ContainerPort, true
}

var (
	shells             = []string{"sh", "bash", "dash", "ash"}
	statementSeparator = regexp.MustCompile(`&&|[;&|\n]`)
	sshdStart          = regexp.MustCompile(`\bsshd\b|(service ssh|init\.d/ssh) start`)
)

// StartsSSHD reports whether the words of a command start sshd.
func StartsSSHD(words []string) bool { return sshdStart.MatchString(strings.Join(words, " ")) }

// IsIdleCommand reports whether a command does nothing except wait or run sshd, including the usual
// preparations of sshd. There must be at least one word.
func IsIdleCommand(words []string) bool {
	if !slices.Contains(shells, path.Base(words[0])) {
		return isIdleStatement(words)
	}
	script, ok := parseShellScript(words[1:])
	if !ok {
		return false
	}
	for _, statement := range statementSeparator.Split(script, -1) {
		if !isIdleStatement(strings.Fields(statement)) {
			return false
		}
	}
	return true
}

// parseShellScript returns the script that a shell receives with -c. It returns false if there is
// none.
func parseShellScript(words []string) (string, bool) {
	for i, w := range words {
		switch {
		case !strings.HasPrefix(w, "-"):
			return "", false
		case strings.Contains(w, "c") && !strings.HasPrefix(w, "--"):
			rest := slices.DeleteFunc(slices.Clone(words[i+1:]), func(s string) bool { return s == "--" })
			return strings.Join(rest[:min(1, len(rest))], ""), len(rest) > 0
		}
	}
	return "", false
}

// idlePrefixes are words before the program of a statement that do not change its meaning.
var idlePrefixes = []string{"exec", "do", "while", "true", ":", "done", "sudo"}

// isIdleStatement reports whether a statement of a shell waits, runs sshd or prepares sshd.
func isIdleStatement(words []string) bool {
	for len(words) > 0 && slices.Contains(idlePrefixes, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return true
	}
	line := strings.Join(words, " ")
	switch path.Base(words[0]) {
	case "sleep", "sshd", "pause", "set":
		return true
	case "tail":
		return strings.HasSuffix(line, "/dev/null")
	case "mkdir", "chmod", "chown":
		return strings.Contains(line, "sshd") || strings.Contains(line, ".ssh")
	case "ssh-keygen":
		return line == words[0]+" -A"
	case "service", "ssh", "rc-service":
		return strings.HasSuffix(line, "ssh start") || strings.HasSuffix(line, "sshd start") ||
			line == "/etc/init.d/ssh start"
	}
	return false
}
