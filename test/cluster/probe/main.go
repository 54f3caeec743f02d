// Command probe checks the connectivity of a pod. It resolves names and connects to addresses,
// given as "name" and "host:port", and retries each for up to 30 s. It prints the results. If the
// last argument is "sleep", it then waits to be killed.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// probeTimeout is long enough for the start of a pod and short enough for a test.
const probeTimeout = 30 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	for _, target := range os.Args[1:] {
		if target == "sleep" {
			select {}
		}
		if err := probeUntilSuccess(ctx, target); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			os.Exit(1)
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
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return "", err
	}
	return "connected", connection.Close()
}
