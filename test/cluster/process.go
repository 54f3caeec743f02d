package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// terminationGracePeriod is how long a process may take to exit after SIGTERM. The slowest, the
	// API server, drains for a few seconds.
	terminationGracePeriod = 15 * time.Second
	// killTimeout is how long the kernel may take to remove a process after SIGKILL.
	killTimeout = 30 * time.Second
	// pollInterval is the pause between two checks of a condition that changes within milliseconds
	// or seconds.
	pollInterval = 25 * time.Millisecond
)

// processID identifies a process uniquely. The kernel reuses PIDs, but not with the same start
// time.
type processID struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot.
	Start uint64 `json:"start"`
}

// currentProcess returns the identity of this process.
func currentProcess() processID {
	start, _, err := readProcStat(os.Getpid())
	if err != nil {
		panic(fmt.Sprintf("reading the status of this process: %v", err))
	}
	return processID{PID: os.Getpid(), Start: start}
}

// isAlive reports whether the process is running. A zombie is not alive.
func (id processID) isAlive() bool {
	if id.PID <= 0 {
		return false
	}
	start, status, err := readProcStat(id.PID)
	return err == nil && start == id.Start && status != 'Z' && status != 'X'
}

// readProcStat returns the start time and the status letter of a process.
func readProcStat(pid int) (start uint64, status byte, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the program name in parentheses. It may contain spaces and parentheses.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const startField = 22 - 3 // proc(5) counts from 1, and fields starts with the third
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("reading the status of process %d: only %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	return start, fields[0][0], err
}

// terminateProcess terminates the process with SIGTERM and then SIGKILL, and returns when it has
// exited.
func (id processID) terminateProcess() error {
	for _, attempt := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, terminationGracePeriod}, {syscall.SIGKILL, killTimeout}} {
		if !id.isAlive() {
			return nil
		}
		if err := syscall.Kill(id.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("terminating process %d: %w", id.PID, err)
		}
		for end := time.Now().Add(attempt.wait); time.Now().Before(end); time.Sleep(pollInterval) {
			if !id.isAlive() {
				return nil
			}
		}
	}
	return fmt.Errorf("terminating process %d: it is still running %s after SIGKILL", id.PID, killTimeout)
}

// program is a program to run.
type program struct {
	// Name is the name of the component, for example "kube-apiserver". It is also the first
	// argument of the process, unless Network is set.
	Name string   `json:"name"`
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
	// TempDir is the directory for temporary files, or empty for that of this process.
	TempDir string `json:"tempDir,omitempty"`
	// MemoryLimit is the value of GOMEMLIMIT, or empty for no limit.
	MemoryLimit string `json:"memoryLimit,omitempty"`
	// Network is the file of the network namespace, or empty for that of this process.
	Network string `json:"network,omitempty"`
}

// command returns the path and the arguments of the process.
func (p program) command() (path string, args []string) {
	if p.Network == "" {
		return p.Path, append([]string{p.Name}, p.Args...)
	}
	return findProgram("nsenter"), append([]string{"nsenter", "--net=" + p.Network, "--", p.Path}, p.Args...)
}

// startProgram starts a program in the directory of the cluster, with its output in the log
// directory, and records it in the state. If the cluster is not detached, the kernel kills the
// program when this process exits for any reason.
func (c *Cluster) startProgram(p program) error {
	if owner := c.state.Owner; !c.state.Detached && owner.PID != os.Getpid() {
		return fmt.Errorf("starting %s: process %d owns the cluster, and only it can start programs", p.Name, owner.PID)
	}
	logPath := filepath.Join(c.LogDir(), p.Name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	defer func() { _ = out.Close() }()
	path, args := p.command()
	cmd := &exec.Cmd{
		Path: path, Args: args, Dir: c.dir, Stdout: out, Stderr: out,
		// The environment is fixed, because components must not depend on the environment of the
		// caller.
		Env: []string{
			"HOME=" + c.dir,
			"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin",
			"TMPDIR=" + cmp.Or(p.TempDir, os.TempDir()),
			"GOMEMLIMIT=" + cmp.Or(p.MemoryLimit, "off"),
		},
		// A separate session: an interrupt of the terminal must reach only this process, which then
		// stops all components in order.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if !c.state.Detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := runOnSpawnThread(cmd.Start); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	id := processID{PID: cmd.Process.Pid}
	if id.Start, _, err = readProcStat(id.PID); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func() { _ = cmd.Wait() }() // reaps the process; its log shows how it exited
	c.state.recordProcess(processRecord{processID: id, program: p, Log: logPath})
	return c.state.saveTo(c.dir)
}

// spawnThread returns a channel of functions that run on one operating system thread for the
// lifetime of this process. The kernel sends the parent death signal when the thread that started a
// child exits, not when its process exits.
var spawnThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func runOnSpawnThread(f func() error) error {
	result := make(chan error)
	spawnThread() <- func() { result <- f() }
	return <-result
}

// waitUntilReady polls ready until it returns nil, the named component exits, or limit elapses. The
// error contains the last error of ready and the end of the component's log.
func (c *Cluster) waitUntilReady(
	ctx context.Context, component string, limit time.Duration, ready func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var process processRecord
	for _, p := range c.state.Processes {
		if p.Name == component {
			process = p
		}
	}
	for {
		begin := time.Now()
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if !process.isAlive() {
			return fmt.Errorf("%s exited; end of %s:\n%s", component, process.Log, ReadLastLines(process.Log, 12))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%w): %w; end of %s:\n%s",
				component, context.Cause(ctx), err, process.Log, ReadLastLines(process.Log, 12))
		case <-time.After(max(pollInterval, time.Since(begin))): // spends at most half of the time on polling
		}
	}
}

// ReadLastLines returns the last lines of a file, each indented by a tab. If the file cannot be
// read, it returns the error.
func ReadLastLines(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "\t(" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "\t" + strings.Join(all[max(0, len(all)-lines):], "\n\t")
}
