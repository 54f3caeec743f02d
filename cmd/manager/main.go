// Command manager serves the admission webhooks of Rollcall and reconciles gangs.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := runManager(ctrl.SetupSignalHandler(), os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rollcall manager:", err)
		os.Exit(1)
	}
}
