package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// kubernetesChainPrefix is the prefix of all packet filter chains of kube-proxy and the kubelet.
const kubernetesChainPrefix = "KUBE-"

// removePacketFilterRules removes the packet filter rules of the bridge and of kube-proxy. The
// --cleanup flag of kube-proxy leaves some chains behind.
func removePacketFilterRules() error {
	var errs []error
	for _, family := range []string{"iptables", "ip6tables"} {
		if !isFile(findProgram(family + "-save")) {
			continue
		}
		saved, err := runCommand(family + "-save")
		if err != nil {
			errs = append(errs, fmt.Errorf("listing packet filter rules: %w", err))
			continue
		}
		script := buildRemovalScript(saved)
		if script == "" {
			continue
		}
		// With --noflush, all other rules stay unchanged, including rules that other programs add
		// meanwhile.
		if _, err := runCommandWithInput(script, family+"-restore", "--noflush"); err != nil {
			errs = append(errs, fmt.Errorf("removing packet filter rules: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeLinkRules removes the rules of acceptPackets, also if only one of them exists.
func removeLinkRules(link string) error {
	for _, chain := range []string{"INPUT", "FORWARD"} {
		rule := []string{chain, "-i", link, "-j", "ACCEPT"}
		if _, err := runCommand("iptables", append([]string{"-C"}, rule...)...); err != nil {
			continue // the rule does not exist
		}
		if _, err := runCommand("iptables", append([]string{"-D"}, rule...)...); err != nil {
			return fmt.Errorf("removing packet filter rules: %w", err)
		}
	}
	return nil
}

// buildRemovalScript returns the input for iptables-restore that removes the chains of Kubernetes,
// every rule that jumps to them, and the rules of the bridge and of the links to nodes. saved is the output
// of iptables-save.
// It returns "" if there are none.
func buildRemovalScript(saved string) string {
	found := false
	var script, rules, chains strings.Builder
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			rules.Reset()
			chains.Reset()
			script.WriteString(line + "\n")
		case strings.HasPrefix(line, ":"+kubernetesChainPrefix):
			found = true
			name, _, _ := strings.Cut(line[1:], " ")
			// Declaring a chain empties it.
			script.WriteString(":" + name + " - [0:0]\n")
			chains.WriteString("-X " + name + "\n")
		case strings.HasPrefix(line, "-A "+kubernetesChainPrefix):
			// The rule is removed with its chain.
		case strings.HasPrefix(line, "-A ") &&
			(strings.Contains(line, "-j "+kubernetesChainPrefix) || strings.Contains(line, "-i "+bridgeName+" ") ||
				strings.Contains(line, "-i "+linkPrefix)):
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
