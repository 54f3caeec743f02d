//go:build linux

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// printDelay is how long Python may print its stacks after SIGABRT.
const printDelay = time.Second

// errProgressUsage describes the arguments of the probe.
var errProgressUsage = errors.New("usage: agent progress FILE TIMEOUT [PERIOD]")

// checkProgress is the probe of a training container. It returns an error only if the program of the container did not
// write a file within a timeout. A program that has not written the file since it started makes progress: the start
// timeout of the gang limits the start. So a file of an earlier attempt does not count.
//
// With a period, which is that of the probe, the rank is terminated. The probe then waits until the period after the
// timeout has elapsed. All ranks that wait for each other have been probed until then, and print their stacks at the
// same time. Otherwise the first would end the others before they print. The caller terminates the container.
func checkProgress(ctx context.Context, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return errProgressUsage
	}
	file := resolvePath(strings.ReplaceAll(args[0], "$("+envRank+")", os.Getenv(envRank)))
	timeout, err := time.ParseDuration(args[1])
	if err != nil {
		return errProgressUsage
	}
	c, err := findContainer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall: "+err.Error())
		return nil //nolint:nilerr // an error would end the rank
	}
	last, isStalled := findStall(file, timeout, c.startTime)
	if !isStalled {
		return nil
	}
	if len(args) == 3 {
		period, err := time.ParseDuration(args[2])
		if err != nil {
			return errProgressUsage
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(last.Add(timeout + period))):
		}
		if last, isStalled = findStall(file, timeout, c.startTime); !isStalled {
			return nil
		}
		c.abort(file, last)
	}
	return fmt.Errorf("%s was not written since %s", file, last.UTC().Format(time.RFC3339))
}

// findStall returns when a file was written last, and whether that is longer ago than the timeout.
func findStall(file string, timeout time.Duration, start time.Time) (last time.Time, isStalled bool) {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}, false
	}
	last = info.ModTime()
	return last, last.After(start) && time.Since(last) >= timeout
}

// probedContainer is the container in which the probe runs.
type probedContainer struct {
	// processes are those of the container but the probe, the main process first.
	processes []process
	startTime time.Time
}

// findContainer returns the container of this process. With a shared process namespace, the other containers of the
// pod have other mount namespaces.
func findContainer() (probedContainer, error) {
	var c probedContainer
	own := readMountNamespace(os.Getpid())
	isOther := func(p process) bool { return readMountNamespace(p.id) != own }
	all := slices.DeleteFunc(listProcesses(), func(p process) bool { return p.id == os.Getpid() })
	slices.SortFunc(all, func(a, b process) int { return a.id - b.id })
	c.processes = slices.DeleteFunc(slices.Clone(all), isOther)
	// The program can run as another user. The parent of a probe is visible only in the process namespace of the node,
	// whose other processes must never be aborted.
	if hasOwnNamespace := os.Getppid() == 0; hasOwnNamespace && len(c.processes) == 0 {
		c.processes = all
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil || len(c.processes) == 0 {
		return c, fmt.Errorf("finding the processes of the container: %w", errors.Join(err, os.ErrNotExist))
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	uptime, err := strconv.ParseFloat(string(first), 64)
	if err != nil {
		return c, fmt.Errorf("reading the uptime of the node: %w", err)
	}
	age := uptime - float64(c.processes[0].startTicks)/100
	//nolint:forbidigo // the kernel determines the other times
	c.startTime = time.Now().Add(-time.Duration(age * float64(time.Second)))
	return c, nil
}

func readMountNamespace(id int) string {
	namespace, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", id)) // not permitted for other users
	return namespace
}

// abort makes the training processes print their stacks, and reports the stall before and after them. The kubelet
// keeps only the end of the log as the termination message of the container. A process other than the main process
// terminates by SIGABRT, and may end the container before the second report.
func (c probedContainer) abort(file string, last time.Time) {
	now := time.Now() //nolint:forbidigo // the kernel determines the other times
	report := fmt.Sprintf("rollcall: stalled: %s was not written since %s, found at %s\n",
		file, formatTime(last), formatTime(now))
	ids, isLaunched := c.findTrainers()
	out := c.openOutput(len(ids) > 0 && !isLaunched)
	defer func() { _ = out.Close() }()
	_, _ = out.WriteString(report) // without it, the kubelet still restarts the container
	if len(ids) == 0 {
		return
	}
	sendAll(ids, syscall.SIGABRT)
	sendAll(ids, syscall.SIGCONT) // a stopped process handles no signal
	time.Sleep(printDelay)
	if !isLaunched {
		_, _ = out.WriteString(report)
	}
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// openOutput returns the log of the container if the stacks are its end, and else its termination message, which
// replaces the log. A launcher such as torchrun prints a report of its own after its processes have ended. A program
// without stacks can handle SIGTERM and exit with code 0, and the kubelet then ignores the log.
func (c probedContainer) openOutput(endsWithStacks bool) *os.File {
	stderr := fmt.Sprintf("/proc/%d/fd/2", c.processes[0].id)
	if target, _ := os.Readlink(stderr); endsWithStacks && strings.HasPrefix(target, "pipe:") {
		if out, err := os.OpenFile(stderr, os.O_WRONLY, 0); err == nil {
			return out
		}
	}
	out, err := os.OpenFile(resolvePath(terminationMessagePath), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return os.Stderr
	}
	return out
}

// findTrainers returns the Python processes that train, and whether another Python process has launched them. Forks of
// a trainer, such as the workers of a data loader, and the helpers of multiprocessing do not train.
func (c probedContainer) findTrainers() (ids []int, isLaunched bool) {
	commands := map[int]string{}
	for _, p := range c.processes {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.id))
		if strings.HasPrefix(filepath.Base(target), "python") {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.id))
			commands[p.id] = string(text)
		}
	}
	isHelper := func(p process) bool {
		return strings.Contains(commands[p.id], "multiprocessing") || commands[p.id] == commands[p.parent]
	}
	launchers := map[int]bool{}
	for _, p := range c.processes {
		if commands[p.id] != "" && commands[p.parent] != "" && !isHelper(p) {
			launchers[p.parent] = true
		}
	}
	for _, p := range c.processes {
		if commands[p.id] != "" && !isHelper(p) && !launchers[p.id] {
			ids = append(ids, p.id)
		}
	}
	return ids, len(launchers) > 0
}
