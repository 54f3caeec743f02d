package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClusterDomain(t *testing.T) {
	for name, c := range map[string]struct{ reason, text, want string }{
		"in a pod":        {"the kubelet's search list", "nameserver 10.96.0.10\nsearch rollcall-system.svc.corp.example svc.corp.example corp.example\noptions ndots:5\n", "corp.example"},
		"trailing dot":    {"some resolvers write complete names", "search svc.corp.example. corp.example.\n", "corp.example"},
		"outside":         {"a search list of another kind", "search example.com\n", "cluster.local"},
		"no search":       {"", "nameserver 10.96.0.10\n", "cluster.local"},
		"nothing at all":  {"", "", "cluster.local"},
		"a comment of it": {"not a directive", "# search svc.corp.example\n", "cluster.local"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := clusterDomain(path); got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
	if got := clusterDomain(filepath.Join(t.TempDir(), "missing")); got != "cluster.local" {
		t.Errorf("without a resolver configuration: got %q", got)
	}
}

// TestBuild: managers of one program that found different API servers are told apart, and others are not.
func TestBuild(t *testing.T) {
	names := map[string]int{}
	for _, noRules := range []bool{true, false, true} {
		name, err := build(noRules)
		if err != nil || name == "" {
			t.Fatalf("%q, %v", name, err)
		}
		names[name]++
	}
	if len(names) != 2 {
		t.Errorf("two kinds of managers have the names %v", names)
	}
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes but where the test waits
		signal, stop := context.WithCancel(t.Context())
		defer stop()
		serving, ready := drain(signal, 10*time.Second)
		if err := ready(&http.Request{}); err != nil {
			t.Errorf("not ready before any signal: %v", err)
		}
		stop()
		if err := ready(&http.Request{}); !errors.Is(err, errDraining) {
			t.Errorf("ready after the signal: %v", err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if serving.Err() != nil {
			t.Error("serving ended with the signal, without the delay")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if serving.Err() == nil {
			t.Error("serving does not end")
		}
	})
}

func TestOptions(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for name, c := range map[string]struct {
		reason string
		args   []string
		want   string // part of the error; empty for none
	}{
		"usual":          {"", []string{"--namespace=rollcall-system"}, ""},
		"no namespace":   {"the CA's Secret has to live somewhere", nil, "--namespace"},
		"port":           {"", []string{"--namespace=a", "--webhook-port=70000"}, "--webhook-port"},
		"domain":         {"it becomes part of every address", []string{"--namespace=a", "--cluster-domain=Not A Domain"}, "--cluster-domain"},
		"negative delay": {"", []string{"--namespace=a", "--shutdown-delay=-1s"}, "--shutdown-delay"},
		"log level":      {"the known ones are named", []string{"--namespace=a", "--log-level=loud"}, "debug, info, warn or error"},
		"unknown flag":   {"", []string{"--namespace=a", "--colour"}, "--colour"},
		"two at once":    {"all mistakes are named", []string{"--log-level=loud"}, "--namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.args, io.Discard)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.reason, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.want)
			}
		})
	}
	t.Setenv("POD_NAMESPACE", "from-the-pod")
	if o, err := parse(nil, io.Discard); err != nil || o.namespace != "from-the-pod" {
		t.Errorf("POD_NAMESPACE is not read: %q, %v", o.namespace, err)
	}
}
