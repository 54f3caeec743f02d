// Command manager runs the parts of Rollcall in a cluster (see package manager).
package main

import (
	"rollcall.training/injectors"
	"rollcall.training/manager"
)

func main() { manager.Main(injectors.Builtin()) }
