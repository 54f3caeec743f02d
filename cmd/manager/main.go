// Command manager serves Rollcall's admission webhook and follows its gangs.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rollcall manager:", err)
		os.Exit(1)
	}
}
