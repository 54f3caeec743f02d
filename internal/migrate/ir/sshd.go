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

// ConvertWorkerCommand removes the command of a launcher's worker that only waits or runs sshd, because
// a worker without a command runs Rollcall's sshd. Another command stays. Rollcall vet reports the
// commands with which the launcher does not reach the worker.
func ConvertWorkerCommand(c *corev1.Container, f source.Field, frameworks gang.Frameworks) {
	words := slices.Concat(c.Command, c.Args)
	switch {
	case len(words) > 0 && !IsIdleCommand(words) && StartsSSHD(words):
		f.AddNote("the command is kept: its sshd has the port and the keys of the gang, unless options override them, "+
			"but the processes that the launcher starts do not have the variables of the container",
			"remove the command if the worker needs only sshd")
		return
	case len(words) > 0 && !IsIdleCommand(words):
		f.AddNote("the command is kept, and the launcher connects to the worker only if the command starts sshd",
			"end the command with: exec /bin/sh /etc/rollcall/ssh/sshd; or remove it, so that the worker runs Rollcall's sshd")
		return
	case len(words) > 0:
		f.Get("args").MarkHandled()
		at := f.Get("command")
		if !at.Exists() {
			at = f.Get("args")
		}
		at.MarkLeftOut("it only waits or runs sshd, and a worker without a command runs Rollcall's sshd")
		c.Command, c.Args = nil, nil
	}
	redirectSSHProbes(c, f, frameworks)
}

// identityFile matches the path of a private key of ssh.
var identityFile = regexp.MustCompile(`[^\s"'=:,;]*/\.ssh/id_[a-z0-9]+`)

// ReportIdentityFiles reports key files of the former system that the texts of a launcher name.
func ReportIdentityFiles(c *corev1.Container, f source.Field) {
	VisitTexts(c, func(text *string) {
		file := identityFile.FindString(*text)
		isMounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(file, m.MountPath+"/")
		})
		if file != "" && !isMounted {
			f.AddNoteWithOutcome(source.Dropped, "", "a text names the key file "+file+", which the pods do not have",
				"remove the option or the copy: ssh finds the keys of the gang with /etc/ssh/ssh_config for every user")
		}
	})
}

// redirectSSHProbes points the TCP probes of a worker without a command to Rollcall's sshd, which is
// the only server in the container.
func redirectSSHProbes(c *corev1.Container, f source.Field, frameworks gang.Frameworks) {
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
