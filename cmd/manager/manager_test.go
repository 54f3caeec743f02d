package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDetectClusterDomain(t *testing.T) {
	for name, c := range map[string]struct {
		resolvConf string
		want       string
	}{
		"search list of the kubelet": {
			resolvConf: "nameserver 10.96.0.10\n" +
				"search rollcall-system.svc.corp.example svc.corp.example corp.example\n" +
				"options ndots:5\n",
			want: "corp.example",
		},
		"search list with trailing dots": {
			resolvConf: "search svc.corp.example. corp.example.\n",
			want:       "corp.example",
		},
		"search list outside of a pod": {
			resolvConf: "search example.com\n",
			want:       "cluster.local",
		},
		"no search list": {
			resolvConf: "nameserver 10.96.0.10\n",
			want:       "cluster.local",
		},
		"empty file": {
			resolvConf: "",
			want:       "cluster.local",
		},
		"search list in a comment": {
			resolvConf: "# search svc.corp.example\n",
			want:       "cluster.local",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(path, []byte(c.resolvConf), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := detectClusterDomain(path); got != c.want {
				t.Errorf("detectClusterDomain = %q, want %q", got, c.want)
			}
		})
	}
	if got := detectClusterDomain(filepath.Join(t.TempDir(), "missing")); got != "cluster.local" {
		t.Errorf("without a file, detectClusterDomain = %q, want %q", got, "cluster.local")
	}
}

// TestComputeVersion checks that the version depends on the detected features of the API server, and on
// nothing else.
func TestComputeVersion(t *testing.T) {
	versions := map[string]int{}
	for _, containerRestartRules := range []bool{true, false, true} {
		version, err := computeVersion(containerRestartRules)
		if err != nil || version == "" {
			t.Fatalf("computeVersion(%t) = %q, %v", containerRestartRules, version, err)
		}
		versions[version]++
	}
	if len(versions) != 2 {
		t.Errorf("the versions are %v, want two different versions", versions)
	}
}

func TestDelayShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the fake clock advances only while the test waits
		signal, stop := context.WithCancel(t.Context())
		defer stop()
		serving, ready := delayShutdown(signal, 10*time.Second)
		if err := ready(&http.Request{}); err != nil {
			t.Errorf("the readiness check fails before the signal: %v", err)
		}
		stop()
		if err := ready(&http.Request{}); !errors.Is(err, errDraining) {
			t.Errorf("the readiness check returned %v after the signal, want errDraining", err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if serving.Err() != nil {
			t.Error("the context is done before the delay elapsed")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if serving.Err() == nil {
			t.Error("the context is not done after the delay")
		}
	})
}

func TestParseFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for name, c := range map[string]struct {
		args    []string
		wantErr string // part of the error, empty if the flags are valid
	}{
		"only required flags": {
			args: []string{"--namespace=rollcall-system"},
		},
		"no namespace": {
			args:    nil,
			wantErr: "--namespace",
		},
		"port out of range": {
			args:    []string{"--namespace=a", "--webhook-port=70000"},
			wantErr: "--webhook-port",
		},
		"invalid cluster domain": {
			args:    []string{"--namespace=a", "--cluster-domain=Not A Domain"},
			wantErr: "--cluster-domain",
		},
		"negative delay": {
			args:    []string{"--namespace=a", "--shutdown-delay=-1s"},
			wantErr: "--shutdown-delay",
		},
		"invalid log level": {
			args:    []string{"--namespace=a", "--log-level=loud"},
			wantErr: "debug, info, warn or error",
		},
		"namespace selector": {
			args: []string{"--namespace=a", `--namespace-selector={"matchLabels":{"team":"a"}}`},
		},
		"namespace selector with an unknown field": {
			args:    []string{"--namespace=a", `--namespace-selector={"matchlabel":{"team":"a"}}`},
			wantErr: "must be a LabelSelector as JSON",
		},
		"namespace selector with an invalid operator": {
			args: []string{"--namespace=a",
				`--namespace-selector={"matchExpressions":[{"key":"team","operator":"Equals"}]}`},
			wantErr: "--namespace-selector",
		},
		"namespaces": {
			args: []string{"--namespace=a", "--namespaces=team-a,team-b"},
		},
		"namespace with an invalid name": {
			args:    []string{"--namespace=a", "--namespaces=team-a,Team_B"},
			wantErr: `--namespaces: invalid value "Team_B"`,
		},
		"unknown flag": {
			args:    []string{"--namespace=a", "--no-such-flag"},
			wantErr: "--no-such-flag",
		},
		"all errors are reported": {
			args:    []string{"--log-level=loud"},
			wantErr: "--namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseFlags(c.args, io.Discard)
			switch {
			case c.wantErr == "" && err != nil:
				t.Errorf("parseFlags returned the error %v", err)
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Errorf("parseFlags returned the error %v, want an error with %q", err, c.wantErr)
			}
		})
	}
	t.Setenv("POD_NAMESPACE", "from-the-pod")
	if o, err := parseFlags(nil, io.Discard); err != nil || o.namespace != "from-the-pod" {
		t.Errorf("the namespace is %q with the error %v, want the value of POD_NAMESPACE", o.namespace, err)
	}
}

// TestChartLogLevels checks that the schema of the chart accepts exactly the log levels of the flag.
func TestChartLogLevels(t *testing.T) {
	text, err := os.ReadFile("../../charts/rollcall/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			LogLevel struct {
				Enum []string `json:"enum"`
			} `json:"logLevel"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"debug", "info", "warn", "error"}, schema.Properties.LogLevel.Enum); diff != "" {
		t.Errorf("the log levels of the schema differ (-want +got):\n%s", diff)
	}
	for _, level := range schema.Properties.LogLevel.Enum {
		if _, err := parseFlags([]string{"--namespace=a", "--log-level=" + level}, io.Discard); err != nil {
			t.Errorf("the flag --log-level rejects %q: %v", level, err)
		}
	}
}
