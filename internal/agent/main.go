//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// remoteShellNames are names of the program under which its arguments are those of ssh.
var remoteShellNames = []string{"ssh", "rsh", remoteShellName}

// errPart means that the arguments name no part of the program.
var errPart = errors.New("a part is required: setup, serve, exec, hosts, monitor, install or progress")

// Main runs the part of the program that the arguments name, including the name of the program, and returns the
// exit code.
func Main(ctx context.Context, args []string) int {
	name, args := filepath.Base(args[0]), args[1:]
	part := ""
	if slices.Contains(remoteShellNames, name) {
		part = "exec"
	} else if len(args) > 0 {
		part, args = args[0], args[1:]
	}
	if part == "exec" {
		return executeRemotely(ctx, args)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch part {
	case "setup":
		if err = setup(ctx, os.Stdout); err != nil {
			_ = os.WriteFile(resolvePath(terminationMessagePath), []byte("rollcall: "+err.Error()+"\n"), 0o644)
		}
	case "serve":
		err = serve(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case "hosts":
		err = listHosts(ctx, os.Stdout)
	case "monitor":
		err = monitor(ctx)
	case "install":
		err = copyProgram(filepath.Join(resolvePath(SetupDir), ProgramSubdir))
	case "progress":
		err = checkProgress(ctx, args)
	default:
		err = errPart
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall: "+err.Error())
		return 1
	}
	return 0
}

// executeRemotely runs a command on a host, like ssh.
func executeRemotely(ctx context.Context, args []string) int {
	e, err := parseExecution(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall: "+err.Error())
		return exitUnreachable
	}
	c, err := newClient()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall: "+err.Error())
		return exitUnreachable
	}
	return c.execute(ctx, e)
}
