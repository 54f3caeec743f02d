//go:build linux

package agent

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// terminationGracePeriod is the time between SIGTERM and SIGKILL for processes whose connection ended.
	terminationGracePeriod = 5 * time.Second
	// daemonGracePeriod is how long a process that a successful command leaves behind may take to start a
	// session of its own.
	daemonGracePeriod = 200 * time.Millisecond
	// outputGracePeriod is how long output is read after the last process of the session.
	outputGracePeriod = time.Second
)

// exitNotExecutable is the exit code of shells for a command that cannot be executed.
const exitNotExecutable = 126

// session is a command and its connection.
type session struct {
	*peer
	children *children
	cmd      *exec.Cmd
	input    stdinQueue
}

// run runs a command and returns when all of its processes have terminated.
func (s *session) run(ctx context.Context, command []byte) {
	outputs, err := s.start(command)
	if err != nil {
		_ = s.write(frameStarted, nil)
		_ = s.write(frameStderr, []byte("rollcall: "+err.Error()+"\n"))
		_ = s.writeNumber(frameExit, exitNotExecutable)
		return
	}
	done := make(chan struct{})
	var copies sync.WaitGroup
	copies.Go(func() { s.copyOutput(frameStdout, outputs.stdout) })
	copies.Go(func() { s.copyOutput(frameStderr, outputs.stderr) })
	go s.keepAlive(done)
	go s.input.writeTo(outputs.stdin, func(n int) { _ = s.writeNumber(frameConsumed, n) })
	_ = s.write(frameStarted, nil)

	exited := make(chan int, 1)
	go func() { exited <- s.children.wait(s.cmd) }()
	disconnected := make(chan struct{})
	go func() {
		defer close(disconnected)
		s.handleFrames()
		_ = s.conn.Close() // a client that is gone must not block the output
	}()
	root := s.cmd.Process.Pid
	select {
	case code := <-exited:
		terminateAfter(daemonGracePeriod, func() []int { return findSession(root) })
		outputs.limit(outputGracePeriod)
		copies.Wait()
		_ = s.writeNumber(frameExit, code)
	case <-disconnected:
		terminateTree(root)
		<-exited
	case <-ctx.Done():
		terminateTree(root)
		outputs.limit(outputGracePeriod)
		copies.Wait()
		_ = s.writeNumber(frameExit, <-exited)
	}
	close(done)
	s.input.close()
	_ = s.conn.Close()
	outputs.limit(0)
	copies.Wait()
	outputs.close()
	<-disconnected
}

// pipes are the ends of a command's pipes that the server uses.
type pipes struct{ stdin, stdout, stderr *os.File }

// limit makes reads fail after a time. A daemon can keep the pipes open for as long as it runs.
func (p pipes) limit(timeout time.Duration) {
	deadline := after(timeout)
	_, _ = p.stdout.SetReadDeadline(deadline), p.stderr.SetReadDeadline(deadline)
}

func (p pipes) close() {
	for _, file := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = file.Close()
	}
}

// start starts a command with the environment and the working directory of this process.
func (s *session) start(command []byte) (pipes, error) {
	var ends [3]struct{ read, write *os.File }
	closeAll := func() {
		for _, end := range ends {
			_, _ = end.read.Close(), end.write.Close() // a nil file returns an error
		}
	}
	for i := range ends {
		var err error
		if ends[i].read, ends[i].write, err = os.Pipe(); err != nil {
			closeAll()
			return pipes{}, err
		}
	}
	shell := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	// The command has no context, because run terminates all processes and not only one.
	s.cmd = exec.Command(shell, "-c", string(command))
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = ends[0].read, ends[1].write, ends[2].write
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.children.start(s.cmd); err != nil {
		closeAll()
		return pipes{}, err
	}
	_, _, _ = ends[0].read.Close(), ends[1].write.Close(), ends[2].write.Close()
	s.input.init()
	return pipes{stdin: ends[0].write, stdout: ends[1].read, stderr: ends[2].read}, nil
}

// handleFrames processes the frames of the client until the connection ends or the client violates the
// protocol. It never waits for the command, so that it notices the end of the connection.
func (s *session) handleFrames() {
	for {
		kind, payload, err := s.read(peerTimeout)
		if err != nil {
			return
		}
		switch kind {
		case frameStdin:
			if !s.input.add(bytes.Clone(payload)) {
				return
			}
		case frameSignal:
			if number, ok := parseNumber(payload); ok && forwards(syscall.Signal(number)) {
				_ = syscall.Kill(-s.cmd.Process.Pid, syscall.Signal(number))
			}
		default:
			return
		}
	}
}

// stdinQueue is the input that the command has not read. Its size is limited by [stdinWindow].
type stdinQueue struct {
	mutex   sync.Mutex
	changed *sync.Cond
	chunks  [][]byte
	bytes   int
	ended   bool
}

func (q *stdinQueue) init() { q.changed = sync.NewCond(&q.mutex) }

// add adds input. An empty chunk ends the input. It returns false if the client ignores the window.
func (q *stdinQueue) add(chunk []byte) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	defer q.changed.Broadcast()
	if len(chunk) == 0 {
		q.ended = true
		return true
	}
	q.bytes += len(chunk)
	q.chunks = append(q.chunks, chunk)
	return q.bytes <= stdinWindow && !q.ended
}

// close ends the input.
func (q *stdinQueue) close() { q.add(nil) }

// next returns the next chunk, and nil at the end of the input.
func (q *stdinQueue) next() []byte {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.chunks) == 0 && !q.ended {
		q.changed.Wait()
	}
	if len(q.chunks) == 0 {
		return nil
	}
	chunk := q.chunks[0]
	q.chunks = q.chunks[1:]
	return chunk
}

// writeTo writes all input to a pipe. Input after the command has closed the pipe is discarded.
func (q *stdinQueue) writeTo(pipe *os.File, consumed func(int)) {
	for chunk := q.next(); chunk != nil; chunk = q.next() {
		_, _ = pipe.Write(chunk)
		q.mutex.Lock()
		q.bytes -= len(chunk)
		q.mutex.Unlock()
		consumed(len(chunk))
	}
	_ = pipe.Close()
}
