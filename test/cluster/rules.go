package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// chainPrefix begins the names of all packet filter chains that kube-proxy and the kubelet make.
const chainPrefix = "KUBE-"

// removeRules removes the packet filter rules of kube-proxy, whose own --cleanup leaves some chains behind, and of the
// bridge.
func removeRules() error {
	var errs []error
	for _, family := range []string{"iptables", "ip6tables"} {
		if !isFile(lookPath(family + "-save")) {
			continue
		}
		saved, err := run(family + "-save")
		if err != nil {
			errs = append(errs, fmt.Errorf("listing packet filter rules: %w", err))
			continue
		}
		script := removalScript(saved)
		if script == "" {
			continue
		}
		// Without flushing: all that is not named stays as it is, also what others add meanwhile.
		if _, err := runInput(script, family+"-restore", "--noflush"); err != nil {
			errs = append(errs, fmt.Errorf("removing packet filter rules: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removalScript returns what to feed iptables-restore to remove Kubernetes' chains, every rule that leads to one, and
// those for the bridge, given the output of iptables-save; "" when there are none.
func removalScript(saved string) string {
	found := false
	var script, rules, chains strings.Builder
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			rules.Reset()
			chains.Reset()
			script.WriteString(line + "\n")
		case strings.HasPrefix(line, ":"+chainPrefix):
			found = true
			name, _, _ := strings.Cut(line[1:], " ")
			// Declaring a chain empties it.
			script.WriteString(":" + name + " - [0:0]\n")
			chains.WriteString("-X " + name + "\n")
		case strings.HasPrefix(line, "-A "+chainPrefix):
			// It goes with its chain.
		case strings.HasPrefix(line, "-A ") && (strings.Contains(line, "-j "+chainPrefix) || strings.Contains(line, "-i "+bridge+" ")):
			found = true
			rules.WriteString("-D " + line[len("-A "):] + "\n")
		case line == "COMMIT":
			script.WriteString(rules.String() + chains.String() + "COMMIT\n")
		}
	}
	if !found {
		return ""
	}
	return script.String()
}
