package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// systemProgram is a program that we take from the machine's distribution.
type systemProgram struct {
	// name is looked up in the usual places, unless it is a path.
	name string
	// debian is the package that has it.
	debian string
}

// cniDir is where Debian has the CNI plugins.
const cniDir = "/usr/lib/cni"

// policyFile is how Debian lets an administrator keep packages from starting their services.
const policyFile = "/usr/sbin/policy-rc.d"

var (
	nodePrograms = []systemProgram{
		{"containerd", "containerd"},
		{"ctr", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"runc", "runc"},
		{cniDir + "/bridge", "containernetworking-plugins"},
		{cniDir + "/host-local", "containernetworking-plugins"},
		{cniDir + "/loopback", "containernetworking-plugins"},
		{"iptables-save", "iptables"},
		{"ip", "iproute2"},
	}
	recipePrograms = []systemProgram{{"mmdebstrap", "mmdebstrap"}}
	// wheelPrograms are what a Recipe's Wheels need.
	wheelPrograms = []systemProgram{{"pip3", "python3-pip"}}
)

// requirePrograms installs the packages of those programs that are missing, where that is possible.
func requirePrograms(ctx context.Context, p *progress, programs []systemProgram) error {
	var names, packages []string
	for _, program := range programs {
		if !isFile(lookPath(program.name)) {
			names = append(names, program.name)
			packages = append(packages, program.debian)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if os.Geteuid() != 0 || !isFile(lookPath("apt-get")) {
		return fmt.Errorf("missing on this machine: %s. Install the packages %s (Debian's names)",
			strings.Join(names, ", "), strings.Join(packages, ", "))
	}
	what := "installing the Debian packages " + strings.Join(packages, ", ") + " (none of their services is started)"
	if err := p.do(what, func() error { return install(ctx, packages) }); err != nil {
		return err
	}
	for _, program := range programs {
		if !isFile(lookPath(program.name)) {
			return fmt.Errorf("the package %s is installed, and still there is no %s", program.debian, program.name)
		}
	}
	return nil
}

// install installs packages. The package lists are fetched only when those on the machine will not do.
func install(ctx context.Context, packages []string) error {
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	args := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	if err = aptGet(ctx, args...); err != nil {
		if err = aptGet(ctx, "update"); err == nil {
			err = aptGet(ctx, args...)
		}
	}
	return errors.Join(err, restore())
}

// forbidServices keeps packages from starting services: ours must be the only containerd that this starts. An
// administrator's own policy is left as it is.
func forbidServices() (restore func() error, err error) {
	const refuse = "#!/bin/sh\n# Services are not started while test packages are installed.\nexit 101\n"
	f, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keeping services from being started: %w", err)
	}
	_, err = f.WriteString(refuse)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping services from being started: %w", err), os.Remove(policyFile))
	}
	return func() error { return os.Remove(policyFile) }, nil
}

func aptGet(ctx context.Context, args ...string) error {
	// Another apt may be at work; Debian's default is to fail at once.
	args = append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args[2:], " "), err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return nil
}
