package command

import (
	"path"
	"slices"
	"strings"
)

// LauncherProgram is a program that starts the processes of training programs, such as torchrun. Lists of flags
// contain names in the form of [Launch.Flags] and are separated by spaces.
type LauncherProgram struct {
	// Name is the name in messages.
	Name string
	// Programs are the names of the executable, and Modules the modules of Python with the same effect. With a
	// Subcommand, the first program is a launcher only if the subcommand follows.
	Programs, Modules []string
	Subcommand        string
	// Switches are the flags without a value. An unlisted flag has a value, unless Values are listed too: the
	// rest after an unlisted flag is then unknown. Without Switches, all flags are unknown.
	Switches, Values string
	// Pairs are the flags with two values.
	Pairs string
	// AddressFlags are the flags with the host of rank 0. A name with underscores is shown with underscores.
	AddressFlags string
	// ReadsVariables is true if the launcher reads its flags from variables that Rollcall sets, so that it needs no flags.
	ReadsVariables bool
	// NodesFlag is the flag with the number of pods. RankFlag is the flag with the rank of the pod; empty if the launcher
	// does not need it, or if it has the value of a variable.
	NodesFlag, RankFlag string
	// ProcessFlags are the flags with the number of processes on all hosts. They need hosts with slots.
	ProcessFlags string
	// HostProcessFlags are the flags with the number of processes on each host.
	HostProcessFlags string
	// HostFlags are the flags with which the launcher does not use only its own host, or starts nothing. Empty
	// means that it needs no flag for other hosts, or never uses them.
	HostFlags string
	// SSHPortFlags are the flags with the port of ssh, and SSHParameters the words before options of ssh.
	SSHPortFlags, SSHParameters string
}

// Launchers are the programs that [Launchers.Find] and [Scanner.Scan] recognize.
type Launchers []LauncherProgram

// Launch is a call of a launcher.
type Launch struct {
	LauncherProgram
	// Called is the name or the module with which the launcher was called.
	Called string
	// Args are the arguments of the launcher, without a subcommand.
	Args []Argument
}

// FindAll returns the calls of launchers in a command, in the order of the text.
func (ls Launchers) FindAll(c Command) []Launch {
	var launches []Launch
	for _, p := range c.Programs {
		if l, ok := ls.Find(p); ok {
			launches = append(launches, l)
		}
	}
	return launches
}

// Find returns a program as a call of a launcher: the executable, its module or its script that
// Python runs. It returns false for other programs.
func (ls Launchers) Find(p Program) (Launch, bool) {
	name, module, args := p.Name, "", p.Args
	if python, ok := p.Python(); ok {
		name, module, args = path.Base(python.Script), python.Module, python.Args
	}
	for _, l := range ls {
		isProgram := module == "" && slices.Contains(l.Programs, name)
		isModule := slices.Contains(l.Modules, module)
		needsSubcommand := isProgram && l.Subcommand != "" && name == l.Programs[0]
		switch {
		case !isProgram && !isModule:
			continue
		case needsSubcommand && (len(args) == 0 || args[0].Text != l.Subcommand):
			return Launch{}, false
		case needsSubcommand:
			args = args[1:]
		}
		called := name
		if isModule {
			called = module
		}
		return Launch{LauncherProgram: l, Called: called, Args: args}, true
	}
	return Launch{}, false
}

// Flags returns the flags before the training program by name. Names have no leading dashes, and
// dashes instead of underscores. The value of a flag without a value is an unknown argument. The
// result is incomplete if a variable precedes the training program, because the variable can contain
// flags. The result is empty for launchers without a list of flags.
func (l Launch) Flags() (flags map[string]Argument, complete bool) {
	flags = map[string]Argument{}
	if l.Switches == "" {
		return flags, false
	}
	for i := 0; i < len(l.Args); i++ {
		arg := l.Args[i]
		if !strings.HasPrefix(arg.Text, "-") {
			return flags, arg.Known
		}
		name, value, hasInlineValue := SplitFlag(arg.Text)
		count, known := l.countValues(name)
		switch {
		case !known || !arg.Known && !hasInlineValue:
			return flags, false
		case hasInlineValue:
			flags[name] = Argument{Text: value, Known: arg.Known, Variable: arg.Variable}
		case count == 0 || i+count >= len(l.Args):
			flags[name] = Argument{}
		default:
			flags[name] = l.Args[i+1]
			i += count
		}
	}
	return flags, true
}

// SplitFlag returns the name of a flag without its leading dashes and with dashes instead of underscores, and the value
// in the same word.
func SplitFlag(text string) (name, value string, hasInlineValue bool) {
	name, value, hasInlineValue = strings.Cut(strings.TrimLeft(text, "-"), "=")
	return strings.ReplaceAll(name, "_", "-"), value, hasInlineValue
}

// countValues returns the number of words that follow a flag. It returns false if the flag is unknown.
func (l LauncherProgram) countValues(name string) (int, bool) {
	switch {
	case ContainsFlag(l.Switches, name):
		return 0, true
	case ContainsFlag(l.Pairs, name):
		return 2, true
	}
	return 1, l.Values == "" || ContainsFlag(l.Values, name)
}

// ContainsFlag reports whether a list of flags of a [LauncherProgram] contains a name.
func ContainsFlag(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
