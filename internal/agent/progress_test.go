package agent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFindStall checks when a file shows that its program makes no progress.
func TestFindStall(t *testing.T) {
	now := time.Now() //nolint:forbidigo // the kernel determines the times of files
	for name, c := range map[string]struct {
		age, runningFor time.Duration
		want            bool
	}{
		"written within the timeout":          {age: 30 * time.Second, runningFor: time.Hour},
		"written before the timeout":          {age: 61 * time.Second, runningFor: time.Hour, want: true},
		"written by an earlier attempt":       {age: 2 * time.Hour, runningFor: time.Hour},
		"written by a node whose clock leads": {age: -time.Hour, runningFor: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "progress")
			last := now.Add(-c.age)
			if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, last, last)); err != nil {
				t.Fatal(err)
			}
			if _, got := findStall(file, time.Minute, now.Add(-c.runningFor)); got != c.want {
				t.Errorf("stalled: %t, want %t", got, c.want)
			}
		})
	}
	if _, got := findStall(filepath.Join(t.TempDir(), "missing"), time.Minute, now.Add(-time.Hour)); got {
		t.Error("a program that has not written the file stalls")
	}
}

// TestPlanProbe checks that the second failed probe terminates a rank, and not the first, and that it ends at the same
// time in all ranks that stalled at the same time.
func TestPlanProbe(t *testing.T) {
	const period = 10 * time.Second
	for name, c := range map[string]struct {
		start, end time.Duration
		isSecond   bool
	}{
		"a probe starts with the stall":             {start: 0, end: period},
		"the first probe starts late":               {start: period - 1, end: period},
		"the second probe follows without a pause":  {start: period, end: 2 * period, isSecond: true},
		"the second probe starts a period later":    {start: 2*period - 1, end: 2 * period, isSecond: true},
		"the kubelet did not run for a long time":   {start: time.Hour, end: 2 * period, isSecond: true},
		"a clock is set back while the rank stalls": {start: -time.Second, end: period},
	} {
		t.Run(name, func(t *testing.T) {
			stall := time.Unix(1000, 0)
			end, isSecond := planProbe(stall, stall.Add(c.start), period)
			if end.Sub(stall) != c.end || isSecond != c.isSecond {
				t.Errorf("the probe ends after %s, second: %t", end.Sub(stall), isSecond)
			}
		})
	}
}

// startPython starts a Python program in a container of its own, with a pipe as its log.
func startPython(t *testing.T, program string) (c probedContainer, log *bytes.Buffer, wait func() error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", program)
	cmd.Env = append(os.Environ(), "PYTHONFAULTHANDLER=1")
	started := filepath.Join(t.TempDir(), "started")
	cmd.Env = append(cmd.Env, "STARTED="+started)
	log = &bytes.Buffer{}
	cmd.Stderr = log // by a pipe
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program starts", func() bool { _, err := os.Stat(started); return err == nil })
	for _, p := range listProcesses() {
		if p.id == cmd.Process.Pid || p.parent == cmd.Process.Pid {
			c.processes = append(c.processes, p)
		}
	}
	return c, log, cmd.Wait
}

const sleepingProgram = `
import os, time
def wait_for_data():
    open(os.environ["STARTED"], "w").close()
    time.sleep(1000)
`

// TestAbort checks that Python prints its stack between two reports to the log of its container.
func TestAbort(t *testing.T) {
	c, log, wait := startPython(t, sleepingProgram+"wait_for_data()")
	c.abort("/tmp/progress", time.Unix(0, 0))
	if err := wait(); err == nil || !strings.Contains(err.Error(), "abort") {
		t.Errorf("the program ended with %v", err)
	}
	first, rest, _ := strings.Cut(log.String(), "\n")
	if !strings.HasPrefix(first, "rollcall: stalled: /tmp/progress was not written since ") ||
		!strings.Contains(rest, "in wait_for_data") || !strings.HasSuffix(rest, first+"\n") {
		t.Errorf("the log is\n%s", log)
	}
}

// TestFindTrainers checks which of the processes of a container train.
func TestFindTrainers(t *testing.T) {
	launch := `
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", %q])
time.sleep(1000)
`
	for name, c := range map[string]struct {
		program    string
		trains     int // the index of the process that trains; 0 is the main process
		isLaunched bool
	}{
		"the program trains":          {program: sleepingProgram + "wait_for_data()"},
		"a data loader is a fork":     {program: sleepingProgram + "os.fork()\nwait_for_data()"},
		"a launcher starts a process": {program: formatProgram(launch), trains: 1, isLaunched: true},
	} {
		t.Run(name, func(t *testing.T) {
			container, _, wait := startPython(t, c.program)
			trainers, isLaunched := container.findTrainers()
			if len(trainers) != 1 || trainers[0] != container.processes[c.trains] || isLaunched != c.isLaunched {
				t.Errorf("of %+v, %+v train, launched: %t", container.processes, trainers, isLaunched)
			}
			start := time.Duration(container.processes[c.trains].startTicks) * 10 * time.Millisecond
			if got := container.programStartTime().Sub(container.bootTime); got != start {
				t.Errorf("the program started %s after the node, want %s", got, start)
			}
			var all []int
			for _, p := range container.processes {
				all = append(all, p.id)
			}
			sendAll(all, 9)
			_ = wait() // killed
		})
	}
}

func formatProgram(launch string) string {
	return strings.Replace(launch, "%q", `"""`+sleepingProgram+`wait_for_data()"""`, 1)
}
