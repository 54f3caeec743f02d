// Package manager runs the parts of Rollcall in a cluster: "manager webhook" serves the admission webhooks, and
// "manager controller" reconciles gangs. Each part is a process, so that a failure of one of them does not
// affect the other (docs/adr/0016-installation.md). "manager detach" ends the management of all gangs, and
// "manager check" verifies the installation.
//
// cmd/manager is the program with the frameworks of Rollcall. A program in another module calls [Main] with more
// injectors, see examples/custom-framework.
package manager
