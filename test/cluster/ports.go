package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// loopback is where a cluster without real nodes listens: nobody but this machine is to reach it.
const loopback = "127.0.0.1"

// Ports are looked for between these: the kernel uses those from 32768 on for outgoing connections, and would give a port
// away between our finding it free and a component's listening on it; Services of type NodePort begin at 30000.
const lowestPort, endOfPorts = 20000, 30000

// freePorts returns different ports of the address that nothing listens on.
func freePorts(address string, count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range endOfPorts - lowestPort {
		port := lowestPort + rand.IntN(endOfPorts-lowestPort)
		if slices.Contains(ports, port) || claimPort(address, port, "any use") != nil {
			continue
		}
		if ports = append(ports, port); len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("finding %d free ports of %s: all from %d to %d seem to be taken", count, address, lowestPort, endOfPorts)
}

// claimPort returns an error that says who wants the port, if something listens on it.
func claimPort(address string, port int, what string) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d of %s, for %s, is taken: %w", port, address, what, err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("giving port %d back: %w", port, err)
	}
	return nil
}
