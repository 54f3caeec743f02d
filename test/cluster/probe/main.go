// Command probe tries, from inside a pod, what every pod of a real cluster must be able to do: it looks names up and
// connects to addresses, given as "name" and as "host:port", again and again until each has worked or half a minute
// is over. It prints what it found, and with "sleep" as its last argument it then waits to be killed.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// limit is generous for a pod that is still being started, and short enough for a test.
const limit = 30 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, target := range os.Args[1:] {
		if target == "sleep" {
			select {}
		}
		if err := try(ctx, target); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			os.Exit(1)
		}
	}
}

func try(ctx context.Context, target string) error {
	for {
		found, err := once(ctx, target)
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

func once(ctx context.Context, target string) (string, error) {
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
