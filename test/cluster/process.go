package cluster

import (
	"bytes"
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
	// grace is how long a process may take to end when asked: the slowest, the API server, drains for a few seconds.
	grace = 15 * time.Second
	// killed is how long the kernel may take to remove a process that was killed outright.
	killed = 30 * time.Second
	// poll is the pause between two looks at something that changes within milliseconds to seconds.
	poll = 25 * time.Millisecond
)

// processID names one process for good. The kernel hands out numbers again, but never with the same time of start.
type processID struct {
	PID int `json:"pid"`
	// Start is the time of start, in the kernel's ticks since boot.
	Start uint64 `json:"start"`
}

// self returns the identity of this process.
func self() processID {
	start, _, err := procStat(os.Getpid())
	if err != nil {
		panic(fmt.Sprintf("the kernel does not know this process: %v", err))
	}
	return processID{PID: os.Getpid(), Start: start}
}

// alive tells whether the process still runs. One that has ended but which nobody waited for counts as ended.
func (id processID) alive() bool {
	if id.PID <= 0 {
		return false
	}
	start, status, err := procStat(id.PID)
	return err == nil && start == id.Start && status != 'Z' && status != 'X'
}

// procStat reads the time of start and the status letter of a process.
func procStat(pid int) (start uint64, status byte, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const startField = 22 - 3 // Numbered from 1 in proc(5), and fields begins with the third.
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("reading the status of process %d: only %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	return start, fields[0][0], err
}

// stop ends the process and returns when it is gone: first by request, then by force.
func (id processID) stop() error {
	for _, attempt := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killed}} {
		if !id.alive() {
			return nil
		}
		if err := syscall.Kill(id.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", id.PID, err)
		}
		for end := time.Now().Add(attempt.wait); time.Now().Before(end); time.Sleep(poll) {
			if !id.alive() {
				return nil
			}
		}
	}
	return fmt.Errorf("ending process %d: it is still there %s after SIGKILL", id.PID, killed)
}

// program is what to run.
type program struct {
	// name is the component's, such as "kube-apiserver"; it is also the name that the program is called by.
	name string
	path string
	args []string
}

// start starts a program in the cluster's folder, with its output in the log folder, and records it. When the
// cluster is not detached, the kernel kills the program as soon as this process ends, however it ends.
func (c *Cluster) start(p program) error {
	logPath := filepath.Join(c.LogDir(), p.name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer func() { _ = out.Close() }()
	cmd := &exec.Cmd{
		Path: p.path, Args: append([]string{p.name}, p.args...), Dir: c.dir, Stdout: out, Stderr: out,
		// Not our environment: what a component does must not depend on who starts it.
		Env: []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin", "TMPDIR=" + os.TempDir()},
		// A session of its own: an interrupt typed at the terminal must reach us alone, for us to stop all in order.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if !c.state.Detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := onKeeper(cmd.Start); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	id := processID{PID: cmd.Process.Pid}
	if id.Start, _, err = procStat(id.PID); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() { _ = cmd.Wait() }() // So that it never lingers as a zombie. How it ended is told by its log.
	c.state.Processes = append(c.state.Processes, record{processID: id, Name: p.name, Log: logPath})
	return c.state.save(c.dir)
}

// keeper runs functions on one operating system thread that lives as long as this process: the kernel takes the
// end of the thread that started a child, not of its process, for the parent's death.
var keeper = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onKeeper(f func() error) error {
	result := make(chan error)
	keeper() <- func() { result <- f() }
	return <-result
}

// await asks again and again until ready returns nil, the named component ends, or the time is over. The error then
// says what was last in the way, and shows the end of the component's log.
func (c *Cluster) await(ctx context.Context, component string, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var process record
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
		if !process.alive() {
			return fmt.Errorf("%s ended at once; the end of %s:\n%s", component, process.Log, tail(process.Log, 12))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%w): %w; the end of %s:\n%s",
				component, context.Cause(ctx), err, process.Log, tail(process.Log, 12))
		case <-time.After(max(poll, time.Since(begin))): // At most half of the time is spent on asking.
		}
	}
}

// tail returns the last lines of a file, each shifted to the right, as far as they can be read.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "\t(" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "\t" + strings.Join(all[max(0, len(all)-lines):], "\n\t")
}
