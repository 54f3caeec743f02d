package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// loopback is the address of a cluster without real nodes. Only this machine can reach it.
const loopback = "127.0.0.1"

// portRangeStart and portRangeEnd bound the ports that FindFreePorts returns. The kernel assigns
// ports from 32768 to outgoing connections, and could take a free port before a component listens
// on it. Services of type NodePort use ports from 30000.
const portRangeStart, portRangeEnd = 20000, 30000

// FindFreePorts returns count different ports of the address on which no process listens. Tests of many processes
// run at once, and a component may listen on its port only after seconds, or stop and start again. So the ports of
// a user are returned in turn: no call returns a port again before 10,000 others.
func FindFreePorts(address string, count int) ([]int, error) {
	dir, err := ensureCacheDir("")
	if err != nil {
		return nil, err
	}
	unlock, err := acquireLock(filepath.Join(dir, "ports.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	file := filepath.Join(dir, "next-port")
	port := readNextPort(file)
	ports := make([]int, 0, count)
	for tried := 0; tried < portRangeEnd-portRangeStart && len(ports) < count; tried++ {
		if checkPortFree(address, port, "any purpose") == nil {
			ports = append(ports, port)
		}
		if port++; port == portRangeEnd {
			port = portRangeStart
		}
	}
	if len(ports) < count {
		return nil, fmt.Errorf("finding %d free ports of %s: all ports from %d to %d seem to be in use",
			count, address, portRangeStart, portRangeEnd)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(port)), 0o600); err != nil {
		return nil, fmt.Errorf("recording the next port: %w", err)
	}
	return ports, nil
}

// readNextPort returns the port in the file. Without a valid one, it returns a random port, because clusters of
// another user may run on the machine.
func readNextPort(file string) int {
	text, err := os.ReadFile(file)
	port, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil || port < portRangeStart || port >= portRangeEnd {
		return portRangeStart + rand.IntN(portRangeEnd-portRangeStart)
	}
	return port
}

// checkPortFree returns an error with the purpose of the port if a process listens on it.
func checkPortFree(address string, port int, what string) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d of %s, for %s, is in use: %w", port, address, what, err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("closing port %d: %w", port, err)
	}
	return nil
}
