// Command rollcall is the command line of Rollcall. It runs the engine of the admission webhook on
// manifests without a cluster, and it shows the status and the logs of gangs in a cluster.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := executeCommand(newProgram(os.Args)); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(wrapForTerminal(os.Stderr), "rollcall:", text)
		}
		os.Exit(exitCode(err))
	}
}
