//go:build linux

package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// process is a line of the process table.
type process struct {
	id, parent, session int
	isZombie            bool
	// startTicks is when the process started, in hundredths of a second since the start of the node (proc(5)).
	startTicks int64
}

// startTicksField is the index of starttime behind the name of the program in /proc/PID/stat.
const startTicksField = 19

// listProcesses returns the processes of the container.
func listProcesses() []process {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	var list []process
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has terminated
		}
		// The name of the program can contain spaces and parentheses.
		end := bytes.LastIndexByte(text, ')')
		fields := bytes.Fields(text[end+1:])
		if end < 0 || len(fields) < 4 {
			continue
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(string(fields[1]))
		session, _ := strconv.Atoi(string(fields[3]))
		p := process{id: id, parent: parent, session: session, isZombie: string(fields[0]) == "Z"}
		if len(fields) > startTicksField {
			p.startTicks, _ = strconv.ParseInt(string(fields[startTicksField]), 10, 64)
		}
		list = append(list, p)
	}
	return list
}

// findSession returns the running processes of a session.
func findSession(session int) []int {
	var ids []int
	for _, p := range listProcesses() {
		if p.session == session && !p.isZombie {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// findTree returns the running processes of a session and all descendants of root, also those that have started
// a session of their own.
func findTree(root int) []int {
	list := listProcesses()
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		for _, p := range list {
			if p.parent == tree[i] && !slices.Contains(tree, p.id) {
				tree = append(tree, p.id)
			}
		}
	}
	var ids []int
	for _, p := range list {
		if !p.isZombie && (p.session == root || slices.Contains(tree, p.id)) {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// terminateTree terminates the processes of a session and all descendants of root.
func terminateTree(root int) {
	ids := findTree(root)
	isLeft := func() []int {
		left := findSession(root)
		for _, p := range listProcesses() {
			// A descendant can outlive its parents. Its ID is not reused within the grace period.
			if slices.Contains(ids, p.id) && !p.isZombie && !slices.Contains(left, p.id) {
				left = append(left, p.id)
			}
		}
		return left
	}
	terminateAfter(0, isLeft)
}

// terminateAfter waits until find returns nothing. After a delay, it sends SIGTERM to the processes, and after
// the grace period SIGKILL.
func terminateAfter(delay time.Duration, find func() []int) {
	terminate, kill := time.After(delay), time.After(delay+terminationGracePeriod)
	// A process in an uninterruptible wait does not terminate.
	giveUp := time.After(delay + 2*terminationGracePeriod)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for ids := find(); len(ids) > 0; ids = find() {
		select {
		case <-terminate:
			sendAll(ids, syscall.SIGHUP)
			sendAll(ids, syscall.SIGTERM)
			sendAll(ids, syscall.SIGCONT) // a stopped process handles no signal
		case <-kill:
			sendAll(ids, syscall.SIGKILL)
		case <-giveUp:
			return
		case <-poll.C:
		}
	}
}

func sendAll(ids []int, number syscall.Signal) {
	for _, id := range ids {
		_ = syscall.Kill(id, number) // the process may have terminated
	}
}

// children are the commands of the server. Their exit codes must not get lost to the reaper of orphans.
type children struct {
	mutex sync.Mutex
	ids   map[int]bool
}

func newChildren() *children { return &children{ids: map[int]bool{}} }

func (c *children) start(cmd *exec.Cmd) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.ids[cmd.Process.Pid] = true
	return nil
}

// wait waits for a command and returns its exit code, as a shell does.
func (c *children) wait(cmd *exec.Cmd) int {
	_ = cmd.Wait() // the state contains the exit code
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.ids, cmd.Process.Pid)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return 128 + int(status.Signal())
	default:
		return cmd.ProcessState.ExitCode()
	}
}

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// reapOrphans makes this process the parent of orphans, and collects them until the context is done. In most
// containers, it is the first process anyway.
func (c *children) reapOrphans(ctx context.Context) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			c.reap()
		}
		time.Sleep(100 * time.Millisecond) // collects many with one list
	}
}

func (c *children) reap() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range listProcesses() {
		if p.isZombie && p.parent == os.Getpid() && !c.ids[p.id] {
			for {
				_, err := syscall.Wait4(p.id, nil, syscall.WNOHANG, nil)
				if !errors.Is(err, syscall.EINTR) {
					break
				}
			}
		}
	}
}
