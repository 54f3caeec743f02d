// Command custom-framework is the manager of Rollcall with one more framework. Build it in place of cmd/manager.
package main

import (
	"example.com/custom-framework/ring"

	"rollcall.training/injectors"
	"rollcall.training/manager"
)

func main() { manager.Main(append(injectors.Builtin(), ring.Injector{})) }
