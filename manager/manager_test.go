package manager

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"rollcall.training/injectors"
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

// TestComputeVersion checks that the version depends on the detected features of the API server, on the image of the
// agent, and on nothing else.
func TestComputeVersion(t *testing.T) {
	versions := map[string]int{}
	for _, containerRestartRules := range []bool{true, false, true} {
		for _, image := range []string{"", "manager:1"} {
			version, err := computeVersion(containerRestartRules, image)
			if err != nil || version == "" {
				t.Fatalf("computeVersion(%t, %q) = %q, %v", containerRestartRules, image, version, err)
			}
			versions[version]++
		}
	}
	if len(versions) != 4 {
		t.Errorf("the versions are %v, want four different versions", versions)
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

// flagParser parses and validates the flags of one part.
type flagParser interface {
	addFlags(f *pflag.FlagSet)
	validateFlags() error
}

func parseFlags(o flagParser, args ...string) error {
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	o.addFlags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	return o.validateFlags()
}

func TestParseFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for name, c := range map[string]struct {
		options flagParser
		args    []string
		wantErr string // part of the error, empty if the flags are valid
	}{
		"only required flags of the webhook": {
			options: &webhookOptions{},
			args:    []string{"--namespace=rollcall-system"},
		},
		"only required flags of the controller": {
			options: &controllerOptions{},
			args:    []string{"--namespace=rollcall-system"},
		},
		"no namespace of the webhook": {
			options: &webhookOptions{},
			wantErr: "--namespace",
		},
		"no namespace of the controller": {
			options: &controllerOptions{},
			wantErr: "--namespace",
		},
		"policy with a ceiling": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--policy-configmap=rollcall-policy", "--policy-ceiling=off"},
		},
		"invalid ceiling of the policy": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--policy-ceiling=deny"},
			wantErr: "must be enforce, warn, audit or off",
		},
		"invalid kind of reports": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--policy-reports=wgpolicy"},
			wantErr: "must be none or openreports",
		},
		"invalid ConfigMap of the policy": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--policy-configmap=Policy_A"},
			wantErr: "--policy-configmap",
		},
		"metrics with TLS and authentication": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--metrics-secure", "--metrics-certificate-dir=/tls"},
		},
		"certificate for metrics without TLS": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--metrics-certificate-dir=/tls"},
			wantErr: "--metrics-certificate-dir",
		},
		"port out of range": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--port=70000"},
			wantErr: "--port",
		},
		"invalid cluster domain": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--cluster-domain=Not A Domain"},
			wantErr: "--cluster-domain",
		},
		"negative delay": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--shutdown-delay=-1s"},
			wantErr: "--shutdown-delay",
		},
		"invalid log level": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--log-level=loud"},
			wantErr: "debug, info, warn or error",
		},
		"namespace selector": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", `--namespace-selector={"matchLabels":{"team":"a"}}`},
		},
		"namespace selector with an unknown field": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", `--namespace-selector={"matchlabel":{"team":"a"}}`},
			wantErr: "must be a LabelSelector as JSON",
		},
		"namespace selector with an invalid operator": {
			options: &controllerOptions{},
			args: []string{"--namespace=a",
				`--namespace-selector={"matchExpressions":[{"key":"team","operator":"Equals"}]}`},
			wantErr: "--namespace-selector",
		},
		"namespaces": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--namespaces=team-a,team-b"},
		},
		"namespace with an invalid name": {
			options: &controllerOptions{},
			args:    []string{"--namespace=a", "--namespaces=team-a,Team_B"},
			wantErr: `--namespaces: invalid value "Team_B"`,
		},
		"a flag of the controller on the webhook": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--leader-elect"},
			wantErr: "--leader-elect",
		},
		"serving certificate that may outlive its authority": {
			options: &webhookOptions{},
			args:    []string{"--namespace=a", "--leaf-duration=30s", "--ca-duration=60s"},
			wantErr: "--leaf-duration",
		},
		"all errors are reported": {
			options: &webhookOptions{},
			args:    []string{"--log-level=loud", "--port=0"},
			wantErr: "--port",
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkError(t, parseFlags(c.options, c.args...), c.wantErr)
		})
	}
	t.Setenv("POD_NAMESPACE", "from-the-pod")
	o := &controllerOptions{}
	if err := parseFlags(o); err != nil || o.namespace != "from-the-pod" {
		t.Errorf("the namespace is %q with the error %v, want the value of POD_NAMESPACE", o.namespace, err)
	}
}

// checkError requires an error with a part of its text, or no error if want is empty.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("the error is %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("the error is %v, want an error with %q", err, want)
	}
}

// TestRootCommand checks that the program requires the name of a part.
func TestRootCommand(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		wantErr string
	}{
		"no part":                       {args: []string{}, wantErr: "webhook, controller, detach or check"},
		"an unknown part":               {args: []string{"scheduler"}, wantErr: `"scheduler"`},
		"a flag without a part":         {args: []string{"--log-level=info"}, wantErr: "--log-level"},
		"an invalid flag of the part":   {args: []string{"webhook", "--port=0", "--namespace=a"}, wantErr: "--port"},
		"an argument without a meaning": {args: []string{"controller", "gangs"}, wantErr: `"gangs"`},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRootCommand(injectors.Builtin())
			root.SetArgs(c.args)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			checkError(t, root.ExecuteContext(t.Context()), c.wantErr)
		})
	}
}

// TestCacheCheck checks that the controller is ready only after its cache has been filled.
func TestCacheCheck(t *testing.T) {
	probe := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	checkError(t, newCacheCheck(&informertest.FakeInformers{Synced: new(true)})(probe), "")
	checkError(t, newCacheCheck(&informertest.FakeInformers{Synced: new(false)})(probe), "waiting for the cache")
}

// TestChartLogLevels checks that the schema of the chart accepts exactly the log levels of the flag.
func TestChartLogLevels(t *testing.T) {
	text, err := os.ReadFile("../charts/rollcall/values.schema.json")
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
		if err := parseFlags(&webhookOptions{}, "--namespace=a", "--log-level="+level); err != nil {
			t.Errorf("the flag --log-level rejects %q: %v", level, err)
		}
	}
}
