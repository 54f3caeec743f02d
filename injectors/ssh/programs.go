package ssh

import (
	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Packages of Debian with the programs that the injected scripts run.
const (
	shellPackage     = "dash"
	coreutilsPackage = "coreutils"
)

// requiredPrograms returns the programs that the image of a member of g must contain.
func requiredPrograms(g gang.Gang) []plan.Program {
	const absence = "the init container fails"
	programs := []plan.Program{
		{Name: "sh", Package: shellPackage, Absence: absence},
		{Name: "awk", Package: "mawk", Absence: absence},
		{Name: "sed", Package: "sed", Absence: absence},
	}
	for _, name := range []string{
		"cat", "chmod", "cp", "date", "head", "id", "mkdir", "mv", "rm", "sleep", "tee", "touch", "tr", "uname", "wc",
	} {
		programs = append(programs, plan.Program{Name: name, Package: coreutilsPackage, Absence: absence})
	}
	switch {
	case isSingleWorkload(g):
		return programs
	case g.Role == gang.RoleLauncher:
		return append(programs,
			plan.Program{Name: "ssh", Package: "openssh-client", Absence: "the launcher cannot start processes in workers"},
			plan.Program{Name: "ssh-keyscan", Package: "openssh-client", Absence: "the launcher does not wait for the workers"})
	}
	return append(programs, plan.Program{
		Name: "sshd", Package: "openssh-server",
		Absence: "a worker without a command fails with a message; a worker with a command is not affected",
	})
}
