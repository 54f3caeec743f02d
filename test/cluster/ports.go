package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// loopback is the address of a cluster without real nodes. Only this machine can reach it.
const loopback = "127.0.0.1"

// portRangeStart and portRangeEnd bound the ports that FindFreePorts returns. The kernel assigns
// ports from 32768 to outgoing connections, and could take a free port before a component listens
// on it. Services of type NodePort use ports from 30000.
const portRangeStart, portRangeEnd = 20000, 30000

// FindFreePorts returns count different ports of the address on which no process listens.
func FindFreePorts(address string, count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range portRangeEnd - portRangeStart {
		port := portRangeStart + rand.IntN(portRangeEnd-portRangeStart)
		if slices.Contains(ports, port) || checkPortFree(address, port, "any purpose") != nil {
			continue
		}
		if ports = append(ports, port); len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("finding %d free ports of %s: all ports from %d to %d seem to be in use",
		count, address, portRangeStart, portRangeEnd)
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
