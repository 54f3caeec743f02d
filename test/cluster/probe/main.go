// Command probe checks the connectivity of a pod. It resolves names and connects to addresses,
// given as "name" and "host:port", and retries each for up to 30 s. It waits for the failure of a
// connection to "!host:port". It prints the results. If the last argument is "sleep", it then waits
// to be killed, and accepts connections meanwhile.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// probeTimeout is long enough for the start of a pod and short enough for a test.
	probeTimeout = 30 * time.Second
	// connectTimeout is far longer than a connection takes that is not cut.
	connectTimeout = 2 * time.Second
	// listenAddress accepts connections.
	listenAddress = ":8080"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	for _, target := range os.Args[1:] {
		if target == "sleep" {
			fmt.Fprintf(os.Stderr, "listening: %v\n", acceptConnections())
			os.Exit(1)
		}
		if err := probeUntilSuccess(ctx, target); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			os.Exit(1)
		}
	}
}

// acceptConnections accepts and closes connections, and returns the error that ends it.
func acceptConnections() error {
	listener, err := net.Listen("tcp", listenAddress)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		if err := connection.Close(); err != nil {
			return err
		}
	}
}

func probeUntilSuccess(ctx context.Context, target string) error {
	for {
		found, err := probeTarget(ctx, target)
		if err == nil {
			fmt.Println(target, found)
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func probeTarget(ctx context.Context, target string) (string, error) {
	if !strings.Contains(target, ":") {
		addresses, err := net.DefaultResolver.LookupHost(ctx, target)
		return strings.Join(addresses, " "), err
	}
	address, wantsFailure := strings.CutPrefix(target, "!")
	result, err := connect(ctx, address)
	switch {
	case !wantsFailure:
		return result, err
	case err == nil:
		return "", errors.New(result)
	default:
		return "not connected", nil
	}
}

// connect connects to an address and closes the connection.
func connect(ctx context.Context, address string) (string, error) {
	connection, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	return "connected", connection.Close()
}
