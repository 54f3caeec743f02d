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

// systemProgram is a program of the machine's distribution.
type systemProgram struct {
	// name is searched in PATH and the directories of root, unless it is a path.
	name string
	// debianPackage is the Debian package of the program.
	debianPackage string
}

// cniDir is the directory of the CNI plugins in Debian.
const cniDir = "/usr/lib/cni"

// servicePolicyFile is the script with which Debian administrators prevent packages from starting
// services.
const servicePolicyFile = "/usr/sbin/policy-rc.d"

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
	// wheelPrograms install the Wheels and Sources of a Recipe.
	wheelPrograms = []systemProgram{{"pip3", "python3-pip"}}
)

// installMissingPrograms installs the packages of missing programs. It needs root and apt-get, and
// otherwise returns an error that lists the packages.
func installMissingPrograms(ctx context.Context, p *progress, programs []systemProgram) error {
	var names, packages []string
	for _, program := range programs {
		if !isFile(findProgram(program.name)) {
			names = append(names, program.name)
			packages = append(packages, program.debianPackage)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if os.Geteuid() != 0 || !isFile(findProgram("apt-get")) {
		return fmt.Errorf("missing programs: %s; install the Debian packages %s",
			strings.Join(names, ", "), strings.Join(packages, ", "))
	}
	what := "installing the Debian packages " + strings.Join(packages, ", ") + " (without starting their services)"
	if err := p.runStep(what, func() error { return installPackages(ctx, packages) }); err != nil {
		return err
	}
	for _, program := range programs {
		if !isFile(findProgram(program.name)) {
			return fmt.Errorf("the package %s is installed but does not contain %s", program.debianPackage, program.name)
		}
	}
	return nil
}

// installPackages installs packages. It updates the package lists only if the installation fails.
func installPackages(ctx context.Context, packages []string) error {
	restore, err := disableServiceStart()
	if err != nil {
		return err
	}
	args := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	if err = runAptGet(ctx, args...); err != nil {
		if err = runAptGet(ctx, "update"); err == nil {
			err = runAptGet(ctx, args...)
		}
	}
	return errors.Join(err, restore())
}

// disableServiceStart prevents packages from starting services until restore is called, so that no
// second containerd starts. It keeps a policy of the administrator.
func disableServiceStart() (restore func() error, err error) {
	const denyScript = "#!/bin/sh\n# Services are not started while test packages are installed.\nexit 101\n"
	f, err := os.OpenFile(servicePolicyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("disabling the start of services: %w", err)
	}
	_, err = f.WriteString(denyScript)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("disabling the start of services: %w", err), os.Remove(servicePolicyFile))
	}
	return func() error { return os.Remove(servicePolicyFile) }, nil
}

func runAptGet(ctx context.Context, args ...string) error {
	// Another apt may be running. By default, Debian fails immediately.
	args = append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")
		return fmt.Errorf("apt-get %s: %w: %s",
			strings.Join(args[2:], " "), err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return nil
}
