// Command rollcall is the command line of Rollcall. It runs the engine of the admission webhook on
// manifests without a cluster, and it shows the status and the logs of gangs in a cluster.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	if err := executeCommand(newProgram(os.Args)); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(wrapForTerminal(os.Stderr), "rollcall:", text)
		}
		os.Exit(exitCode(err))
	}
}

// programName is the name of the command.
const programName = "rollcall"

// Names of the executable as a plugin of kubectl. kubectl runs "kubectl rollcall" as pluginName and
// asks completionPluginName for completions of its arguments
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins).
const (
	pluginName           = "kubectl-" + programName
	completionPluginName = "kubectl_complete-" + programName
)

// newProgram returns the command line for the arguments of the process. The first argument is the name
// of the executable, which decides whether help and errors say "rollcall" or "kubectl rollcall".
func newProgram(osArgs []string) *cobra.Command {
	root := newRootCommand()
	name := strings.TrimSuffix(filepath.Base(osArgs[0]), ".exe")
	args := osArgs[1:]
	if name == pluginName || name == completionPluginName {
		setDisplayName(root, "kubectl "+programName)
	}
	if name == completionPluginName {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(args)
	return root
}

// setDisplayName sets the name of the program in usage lines and examples.
func setDisplayName(root *cobra.Command, name string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	setExampleName(root, name)
}

// setExampleName sets the name of the program in the examples of all commands below a command.
func setExampleName(parent *cobra.Command, name string) {
	for _, cmd := range parent.Commands() {
		cmd.Example = strings.ReplaceAll(cmd.Example, programName+" ", name+" ")
		setExampleName(cmd, name)
	}
}
