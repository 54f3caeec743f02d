//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxProbes is the number of hosts that are asked at the same time.
	maxProbes = 64
	// probeInterval is the time between two attempts to reach the hosts that do not respond.
	probeInterval = time.Second
	// progressInterval is the interval of progress messages.
	progressInterval = 15 * time.Second
)

// setup writes everything that the containers of the pod need into the volume at [SetupDir]. In a launcher, it
// returns after enough hosts respond.
func setup(ctx context.Context, out io.Writer) error {
	hosts, err := parseHosts(os.Getenv(EnvHosts), os.Getenv(EnvDomain))
	if err != nil {
		return err
	}
	c, err := readConfigFromEnv()
	if err != nil {
		return err
	}
	dir := resolvePath(SetupDir)
	if os.Getenv(EnvIsMounted) != "true" {
		if err := copyProgram(filepath.Join(dir, ProgramSubdir)); err != nil {
			return err
		}
	}
	if err := writeHostFiles(filepath.Join(dir, HostsSubdir), c, hosts); err != nil {
		return err
	}
	// The launcher runs as another user than this container.
	report := filepath.Join(dir, ReportSubdir)
	if err := errors.Join(os.MkdirAll(report, 0o777), os.Chmod(report, 0o777)); err != nil {
		return fmt.Errorf("creating the directory of the report: %w", err)
	}
	minHosts, _ := strconv.Atoi(os.Getenv(EnvMinHosts))
	if minHosts == 0 {
		return nil
	}
	identity, err := loadIdentity(resolvePath(KeyDir))
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(os.Getenv(EnvWaitSeconds))
	if err != nil {
		return fmt.Errorf("reading %s: %w", EnvWaitSeconds, err)
	}
	if c.LauncherIsHost {
		hosts = hosts[1:] // the pod of the launcher runs no server
	}
	probe := (&client{config: c, tls: identity.newTLSConfig()}).responds
	return waitForHosts(ctx, out, hosts, minHosts, time.Duration(seconds)*time.Second, probe)
}

func readConfigFromEnv() (config, error) {
	port, portErr := strconv.Atoi(os.Getenv(EnvPort))
	offset, offsetErr := strconv.Atoi(os.Getenv(EnvRankOffset))
	if err := errors.Join(portErr, offsetErr); err != nil {
		return config{}, fmt.Errorf("reading the environment: %w", err)
	}
	return config{
		Port: port, Workload: os.Getenv(EnvWorkload), RankOffset: offset, Slots: os.Getenv(EnvSlots),
		LauncherIsHost: os.Getenv(EnvLauncherIsHost) == "true",
	}, nil
}

// parseHosts returns the hosts of lines "<name> <first index> <last index>" in the order of their ranks.
func parseHosts(text, domain string) ([]string, error) {
	var hosts []string
	for line := range strings.Lines(text) {
		var name string
		var index, last int
		if _, err := fmt.Sscanf(line, "%s %d %d", &name, &index, &last); err != nil {
			return nil, fmt.Errorf("parsing the hosts %q: %w", line, err)
		}
		for ; index <= last; index++ {
			hosts = append(hosts, fmt.Sprintf("%s-%d.%s", name, index, domain))
		}
	}
	return hosts, nil
}

// copyProgram copies this program into a directory.
func copyProgram(dir string) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	return writeFile(filepath.Join(dir, programName), content, 0o755)
}

// discoveryScript lists the hosts that respond now, for elastic launchers.
const discoveryScript = "#!/bin/sh\nexec " + Program + " hosts\n"

// writeHostFiles writes the hosts in the formats of all launchers, the configuration, and a link to the program.
func writeHostFiles(dir string, c config, hosts []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	remoteShell := filepath.Join(dir, remoteShellName)
	if err := os.Remove(remoteShell); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("installing the remote shell: %w", err)
	}
	if err := os.Symlink(Program, remoteShell); err != nil {
		return fmt.Errorf("installing the remote shell: %w", err)
	}
	if err := c.save(filepath.Join(dir, configName)); err != nil {
		return err
	}
	candidates, err := parseHosts(os.Getenv(EnvMaxHosts), os.Getenv(EnvDomain))
	if err != nil {
		return err
	}
	if len(candidates) == 0 {
		candidates = hosts
	}
	// A launcher that is a host is listed by its bare hostname, because every MPI implementation recognizes
	// its own host by that name.
	listed := append([]string(nil), hosts...)
	if c.LauncherIsHost && len(listed) > 0 {
		listed[0] = firstLabel(listed[0])
	}
	slots, hydra := formatLines(listed, " slots="+c.Slots), formatLines(listed, ":"+c.Slots)
	files := map[string]string{
		"hosts": formatLines(listed, ""), "hostfile.slots": slots, "hostfile.hydra": hydra, "hostfile": slots,
		candidatesName: formatLines(candidates, ""),
	}
	if os.Getenv(EnvFormat) == "hydra" {
		files["hostfile"] = hydra
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "discover_hosts.sh"), []byte(discoveryScript), 0o755)
}

func formatLines(hosts []string, suffix string) string {
	var text strings.Builder
	for _, host := range hosts {
		text.WriteString(host + suffix + "\n")
	}
	return text.String()
}

// waitForHosts waits until at least minHosts of the hosts respond. The error names hosts that do not.
func waitForHosts(
	ctx context.Context, out io.Writer, hosts []string, minHosts int, timeout time.Duration,
	responds func(context.Context, string) error,
) error {
	waiting, waited, lastProgress := hosts, time.Duration(0), -progressInterval
	for {
		failures := probeAll(ctx, waiting, responds)
		missing := make([]string, 0, len(waiting))
		var cause error
		for i, host := range waiting {
			if failures[i] != nil {
				missing, cause = append(missing, host), failures[i]
			}
		}
		waiting = missing
		if len(hosts)-len(missing) >= minHosts {
			fmt.Fprintf(out, "rollcall: %d of %d hosts respond\n", len(hosts)-len(missing), len(hosts))
			return nil
		}
		state := fmt.Sprintf("%d of %d hosts do not respond after %d s, starting with: %s (%v)",
			len(missing), len(hosts), int(waited.Seconds()), strings.Join(missing[:min(3, len(missing))], " "), cause)
		if waited >= timeout || ctx.Err() != nil {
			return errors.New(state)
		}
		if waited-lastProgress >= progressInterval {
			fmt.Fprintln(out, "rollcall: "+state)
			lastProgress = waited
		}
		time.Sleep(probeInterval)
		waited += probeInterval
	}
}

// probeAll returns the error of each host; nil if the host responds.
func probeAll(ctx context.Context, hosts []string, responds func(context.Context, string) error) []error {
	failures := make([]error, len(hosts))
	slots := make(chan struct{}, maxProbes)
	var probes sync.WaitGroup
	for i, host := range hosts {
		slots <- struct{}{}
		probes.Go(func() {
			failures[i] = responds(ctx, host)
			<-slots
		})
	}
	probes.Wait()
	return failures
}

// listHosts prints the hosts that respond now with their slots.
func listHosts(ctx context.Context, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join(resolvePath(HostsDir), candidatesName))
	if err != nil {
		return fmt.Errorf("reading the hosts: %w", err)
	}
	c, err := newClient()
	if err != nil {
		return err
	}
	hosts := strings.Fields(string(text))
	failures := probeAll(ctx, hosts, c.responds)
	for i, host := range hosts {
		if isSelf := i == 0 && c.config.LauncherIsHost; isSelf || failures[i] == nil {
			fmt.Fprintf(out, "%s:%s\n", host, c.config.Slots)
		}
	}
	return nil
}
