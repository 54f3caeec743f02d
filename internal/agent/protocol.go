//go:build linux

package agent

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// frameType is the type of a frame. A frame is its type, the length of its payload in 4 bytes, and the payload.
type frameType byte

// The types of frames. Their values are part of the protocol.
const (
	frameReady    frameType = 'A' // server: the client is authenticated and can send its request
	frameRequest  frameType = 'R' // client: the [request] as JSON
	frameStarted  frameType = 'B' // server: the command runs
	frameRefused  frameType = 'N' // server: the command does not run, with the reason
	frameStdin    frameType = 'I' // client: input; no bytes mean the end
	frameConsumed frameType = 'C' // server: the number of input bytes that the command has read
	frameStdout   frameType = 'O' // server: output
	frameStderr   frameType = 'E' // server: output
	frameSignal   frameType = 'S' // client: the number of a signal
	frameExit     frameType = 'X' // server: the exit code
	framePing     frameType = 'P' // both: the sender is alive
)

const (
	// maxDataBytes is the maximum length of a frame with input or output.
	maxDataBytes = 32 << 10
	// maxCommandBytes is the maximum length of a command. The kernel limits an argument to 128 KiB
	// (MAX_ARG_STRLEN).
	maxCommandBytes = 128<<10 - 1
	// maxRequestBytes is the maximum length of a request, whose command is encoded in base64.
	maxRequestBytes = 192 << 10
	// maxReasonBytes is the maximum length of a reason.
	maxReasonBytes = 1 << 10
	// stdinWindow is the maximum number of input bytes that the command has not read. It limits the memory
	// that a client can use.
	stdinWindow = 256 << 10
)

// peerTimeout is the time after which a peer that sends nothing is considered dead. A peer sends a [framePing] four
// times as often. TCP does not detect a process that is stopped. Tests use a shorter time.
var peerTimeout = time.Minute

// protocolVersion is the version of the protocol. A server refuses requests of other versions.
const protocolVersion = 1

// request is the first message of a client.
type request struct {
	Version int `json:"version"`
	// Host is the host that the client wants to reach.
	Host string `json:"host"`
	// Attempt is the attempt of the client's pod; empty if it is unknown.
	Attempt string `json:"attempt,omitempty"`
	// Command is a command for a shell, whose bytes need not be UTF-8. Without a command, the client only
	// asks whether the server responds.
	Command []byte `json:"command,omitempty"`
}

// maxLength returns the maximum length of the payload.
func (t frameType) maxLength() int {
	switch t {
	case frameRequest:
		return maxRequestBytes
	case frameStdin, frameStdout, frameStderr:
		return maxDataBytes
	case frameRefused:
		return maxReasonBytes
	case frameConsumed, frameSignal, frameExit:
		return 4
	}
	return 0
}

// peer is a connection with frames. One goroutine can read while others write.
type peer struct {
	conn   net.Conn
	writes sync.Mutex
	buffer [maxDataBytes]byte // the payload of the latest frame, unless it is longer
}

// read returns the next frame other than a ping. The payload is valid until the next call.
func (p *peer) read(timeout time.Duration) (frameType, []byte, error) {
	for {
		if err := p.conn.SetReadDeadline(after(timeout)); err != nil {
			return 0, nil, fmt.Errorf("setting the deadline: %w", err)
		}
		var header [5]byte
		if _, err := io.ReadFull(p.conn, header[:]); err != nil {
			return 0, nil, err
		}
		kind, length := frameType(header[0]), binary.BigEndian.Uint32(header[1:])
		if int64(length) > int64(kind.maxLength()) {
			return 0, nil, fmt.Errorf("reading a frame: type %q with %d bytes, the maximum is %d",
				header[0], length, kind.maxLength())
		}
		payload := p.buffer[:]
		if int(length) > len(payload) {
			payload = make([]byte, length)
		}
		if _, err := io.ReadFull(p.conn, payload[:length]); err != nil {
			return 0, nil, err
		}
		if kind != framePing {
			return kind, payload[:length], nil
		}
	}
}

// write sends a frame.
func (p *peer) write(kind frameType, payload []byte) error {
	frame := make([]byte, 5, 5+len(payload))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	p.writes.Lock()
	defer p.writes.Unlock()
	_, err := p.conn.Write(append(frame, payload...))
	return err
}

// writeNumber sends a frame whose payload is a number.
func (p *peer) writeNumber(kind frameType, number int) error {
	return p.write(kind, binary.BigEndian.AppendUint32(nil, uint32(number)))
}

// writeRequest sends the first frame of a client.
func (p *peer) writeRequest(r request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	return p.write(frameRequest, text)
}

// keepAlive sends pings until done is closed.
func (p *peer) keepAlive(done <-chan struct{}) {
	ticker := time.NewTicker(peerTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if p.write(framePing, nil) != nil {
				return
			}
		}
	}
}

// copyOutput sends everything that a reader returns in frames of a type.
func (p *peer) copyOutput(kind frameType, from io.Reader) {
	buffer := make([]byte, maxDataBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.write(kind, buffer[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// after returns the deadline of a socket or a pipe.
func after(timeout time.Duration) time.Time {
	return time.Now().Add(timeout) //nolint:forbidigo // the kernel and not this program compares the deadline
}

// parseNumber returns the number in a payload. It returns false if the payload is not a number.
func parseNumber(payload []byte) (int, bool) {
	if len(payload) != 4 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(payload)), true
}
