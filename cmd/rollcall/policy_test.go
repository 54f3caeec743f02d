package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPolicyCheck(t *testing.T) {
	const header = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n"
	for name, test := range map[string]struct {
		args   []string
		stdin  string
		stdout string
		code   int
	}{
		"a valid policy": {
			args: []string{"-f", "-"}, stdin: header + "cluster: {limits: {size: {max: 8}}}",
			stdout: "standard input: valid; limits: 1, rules: 0, defaults: 0\n",
		},
		"an invalid policy": {
			args: []string{"-f", "-"}, stdin: header + "cluster: {limits: {sizes: {max: 8}}}", code: 1,
			stdout: "error: standard input:3:20: cluster.limits.sizes: unknown field; did you mean size?\n",
		},
		"a policy with a part without an effect": {
			args: []string{"-f", "-"},
			stdin: header + "cluster: {limits: {size: {max: 8}}}\n" +
				"profiles: [{name: a, namespaces: {names: [a]}, limits: {size: {max: 9}}}]",
			stdout: "advice: standard input:4:64: profiles[0].limits.size.max: has no effect above 8, " +
				"the limit of the cluster\nstandard input: valid; limits: 2, rules: 0, defaults: 0\n",
		},
		"a file that does not exist": {args: []string{"-f", filepath.Join(t.TempDir(), "p.yaml")}, code: exitUsage},
		"no file":                    {code: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := runCommand(t, test.stdin, append([]string{"policy", "check"}, test.args...)...)
			code := 0
			if err != nil {
				code = exitCode(err)
			}
			if diff := cmp.Diff(test.stdout, stdout); diff != "" || code != test.code {
				t.Errorf("exit code %d, want %d; output (-want +got):\n%s", code, test.code, diff)
			}
		})
	}
}

func TestVetPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\ncontact: '#gpu-admins'\n" +
		"cluster: {limits: {size: {max: 1}}}\n")
	stdout, _, err := runCommand(t, cleanJob, "vet", "-f", "-", "--policy", path)
	const want = "at most 1 are allowed, or ask #gpu-admins (policy cluster/size)"
	if !strings.Contains(stdout, want) || exitCode(err) != 1 {
		t.Errorf("error %v; output does not contain %q:\n%s", err, want, stdout)
	}
	write("kind: GangPolicy")
	if _, _, err := runCommand(t, cleanJob, "vet", "-f", "-", "--policy", path); err == nil || exitCode(err) != exitUsage {
		t.Errorf("an invalid policy gives the error %v, want exit code %d", err, exitUsage)
	}
}
