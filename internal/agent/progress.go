//go:build linux

package agent

import (
	"bytes"
	"cmp"
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
// write a file within a timeout. A program that has not written the file since it started makes progress, because
// nobody knows how long its start takes. So a file of an earlier attempt does not count.
//
// With a period, which is that of the probe, the rank is terminated after two failed probes. The first waits until the
// period after the timeout has elapsed, so it changes no rank that recovers. The second waits for another period. All
// ranks that wait for each other have been probed twice until then, and print their stacks at the same time. Otherwise
// the first would end the others before they print. The caller terminates the container.
func checkProgress(ctx context.Context, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return errProgressUsage
	}
	file := resolvePath(strings.ReplaceAll(args[0], "$("+envRank+")", os.Getenv(envRank)))
	durations := make([]time.Duration, 2) // the timeout and the period
	for i, arg := range args[1:] {
		var err error
		if durations[i], err = time.ParseDuration(arg); err != nil {
			return errProgressUsage
		}
	}
	timeout, period := durations[0], durations[1]
	_, last, isStalled := checkContainer(file, timeout)
	if !isStalled {
		return nil
	}
	if period > 0 {
		end, isSecond := planProbe(last.Add(timeout), time.Now(), period) //nolint:forbidigo // that of the kernel
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(end)):
		}
		var c probedContainer
		if c, last, isStalled = checkContainer(file, timeout); !isStalled {
			return nil
		}
		if isSecond {
			c.abort(file, last)
		}
	}
	return fmt.Errorf("%s was not written since %s", file, last.UTC().Format(time.RFC3339))
}

// planProbe returns when a probe ends that starts at a time and finds a stall, and whether it is the second.
func planProbe(stallTime, startTime time.Time, period time.Duration) (end time.Time, isSecond bool) {
	end = stallTime.Add(period)
	if startTime.Before(end) {
		return end, false
	}
	return end.Add(period), true
}

// checkContainer returns the container of this process, when its program wrote a file last, and whether that is longer
// ago than the timeout.
func checkContainer(file string, timeout time.Duration) (c probedContainer, last time.Time, isStalled bool) {
	c, err := findContainer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall: "+err.Error()) // a failed probe would end the rank
		return c, last, false
	}
	last, isStalled = findStall(file, timeout, c.programStartTime())
	return c, last, isStalled
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
	// bootTime is when the node started.
	bootTime time.Time
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
	//nolint:forbidigo // the kernel determines the other times
	c.bootTime = time.Now().Add(-time.Duration(uptime * float64(time.Second)))
	return c, nil
}

// programStartTime returns when the program started: the first of the processes that train, because a launcher can
// start them again, or else the main process.
func (c probedContainer) programStartTime() time.Time {
	program := c.processes[0]
	trainers, _ := c.findTrainers()
	if len(trainers) > 0 {
		program = slices.MinFunc(trainers, func(a, b process) int { return cmp.Compare(a.startTicks, b.startTicks) })
	}
	return c.bootTime.Add(time.Duration(program.startTicks) * (time.Second / 100))
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
	trainers, isLaunched := c.findTrainers()
	out := c.openOutput(len(trainers) > 0 && !isLaunched)
	defer func() { _ = out.Close() }()
	_, _ = out.WriteString(report) // without it, the kubelet still restarts the container
	if len(trainers) == 0 {
		return
	}
	var ids []int
	for _, p := range trainers {
		ids = append(ids, p.id)
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
func (c probedContainer) findTrainers() (trainers []process, isLaunched bool) {
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
			trainers = append(trainers, p)
		}
	}
	return trainers, len(launchers) > 0
}
