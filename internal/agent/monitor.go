//go:build linux

package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// terminationMessagePath is the default of Kubernetes for the report of a container.
const terminationMessagePath = "/dev/termination-log"

// monitor waits until the context is done, and then reports how many hosts the launcher reached.
func monitor(ctx context.Context) error {
	<-ctx.Done()
	text, err := os.ReadFile(filepath.Join(resolvePath(ReportDir), reachedName))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading the hosts that the launcher reached: %w", err)
	}
	report := fmt.Sprintf("reached=%d\n", countHosts(string(text)))
	if err := os.WriteFile(resolvePath(terminationMessagePath), []byte(report), 0o644); err != nil {
		return fmt.Errorf("reporting the hosts that the launcher reached: %w", err)
	}
	return nil
}

// countHosts returns the number of different hosts in lines, except this host. Names can be short or long.
func countHosts(lines string) int {
	own, _ := os.Hostname() // an unknown name equals no other
	hosts := map[string]bool{}
	for _, host := range strings.Fields(lines) {
		hosts[firstLabel(host)] = true
	}
	delete(hosts, firstLabel(own))
	return len(hosts)
}
