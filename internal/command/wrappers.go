package command

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// wrapper describes a program that starts the program in its arguments.
type wrapper struct {
	// subcommands are the first arguments with which the program is a wrapper, separated by spaces.
	// If empty, it always is one.
	subcommands string
	// valueFlags are the flags whose value is a separate argument, without dashes and separated by
	// spaces. A value can always be attached instead, as in --trace=cuda or -oL.
	valueFlags string
	// operands is the number of arguments between the flags and the program, such as the duration of
	// timeout.
	operands int
	// setsVariables is true if NAME=value can precede the program.
	setsVariables bool
	// runsPython is true if the program can also be a module (-m) or a script of Python.
	runsPython bool
}

// wrappers are the known wrappers by name. The manual of each program is the source of its flags.
var wrappers = map[string]wrapper{
	// The shell and the environment of the process.
	"exec":    {valueFlags: "a"},
	"env":     {valueFlags: "u unset C chdir a argv0", setsVariables: true},
	"nohup":   {},
	"setsid":  {},
	"time":    {valueFlags: "f format o output"},
	"timeout": {valueFlags: "k kill-after s signal", operands: 1},
	"stdbuf":  {valueFlags: "i input o output e error"},
	"flock":   {valueFlags: "w wait timeout E conflict-exit-code", operands: 1},
	"chroot":  {operands: 1},

	// Init processes of containers.
	"tini": {valueFlags: "p e"}, "dumb-init": {valueFlags: "r rewrite"}, "catatonit": {},
	"nvidia_entrypoint.sh": {},

	// Users.
	"sudo": {valueFlags: "C close-from D chdir g group h host p prompt R chroot r role T t type U u user",
		setsVariables: true},
	"gosu": {operands: 1}, "su-exec": {operands: 1},

	// Placement and priority.
	"numactl": {valueFlags: "N cpunodebind m membind i interleave p preferred P preferred-many " +
		"C physcpubind w weighted-interleave"},
	"taskset": {operands: 1},
	"chrt":    {valueFlags: "T sched-runtime P sched-period D sched-deadline", operands: 1},
	"nice":    {valueFlags: "n adjustment"},
	"ionice":  {valueFlags: "c class n classdata"},
	"prlimit": {},

	// Profilers and tracers.
	"nsys": {subcommands: "profile launch", valueFlags: "b backtrace c capture-range capture-range-end cpuctxsw " +
		"cuda-graph-trace cuda-memory-usage cudabacktrace d duration y delay e env-var export " +
		"f force-overwrite gpu-metrics-device gpu-metrics-devices gpu-metrics-frequency gpuctxsw kill " +
		"nic-metrics p nvtx-capture o output python-backtrace python-sampling python-sampling-frequency pytorch " +
		"s sample sampling-frequency sampling-period samples-per-backtrace session session-new w show-output stats " +
		"x stop-on-exit t trace trace-fork-before-exec wait"},
	"ncu": {valueFlags: "c launch-count config-file export o graph-profiling k kernel-name " +
		"launch-skip log-file metrics mode nvtx-exclude nvtx-include page replay-mode s section set target-processes"},
	"rocprof":   {valueFlags: "d i m o t"},
	"rocprofv3": {valueFlags: "d output-directory f output-format i input o output-file"},
	"perf":      {subcommands: "record stat", valueFlags: "C c cpu count e event F freq o output r repeat"},
	"py-spy":    {subcommands: "record", valueFlags: "d duration f format o output r rate"},
	"memray":    {subcommands: "run", valueFlags: "o output p live-port", runsPython: true},
	"strace":    {valueFlags: "a E e o O P p S s u"},

	"ddtrace-run": {}, "opentelemetry-instrument": {}, "xvfb-run": {valueFlags: "e f n p s w"},

	// Environments of Python.
	"conda": {subcommands: "run", valueFlags: "n name p prefix cwd"},
	"mamba": {subcommands: "run", valueFlags: "n name p prefix cwd"},
	"micromamba": {subcommands: "run", valueFlags: "n name p prefix r root-prefix a attach cwd e env rc-file",
		setsVariables: true},
	"uv": {subcommands: "run", valueFlags: "p python with with-editable with-requirements w directory project " +
		"package extra no-extra group no-group only-group env-file index default-index index-url extra-index-url " +
		"f find-links config-file cache-dir link-mode resolution prerelease upgrade-package P refresh-package",
		runsPython: true},
	"poetry": {subcommands: "run", valueFlags: "C directory P project"},
	"pipenv": {subcommands: "run"},
	"pdm":    {subcommands: "run", valueFlags: "p project"},
	"hatch":  {subcommands: "run"},
	"pixi":   {subcommands: "run", valueFlags: "e environment manifest-path"},
}

// unwrapProgram returns the program that a command line starts, without wrappers such as exec and
// timeout. It returns false if the program is unknown.
func unwrapProgram(words []Argument) (Program, bool) {
	for len(words) > 0 && words[0].Known {
		p := Program{Name: path.Base(words[0].Text), Args: words[1:]}
		w, ok := wrappers[p.Name]
		if !ok || !w.appliesTo(p.Args) {
			return p, true
		}
		words = w.unwrap(p.Args)
	}
	return Program{}, false
}

// appliesTo reports whether a program with the arguments starts another program.
func (w wrapper) appliesTo(args []Argument) bool {
	return w.subcommands == "" ||
		len(args) > 0 && args[0].Known && slices.Contains(strings.Fields(w.subcommands), args[0].Text)
}

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// unwrap returns the command line of the program that the wrapper starts. It returns nil if there is
// none.
func (w wrapper) unwrap(args []Argument) []Argument {
	if w.subcommands != "" {
		args = args[1:]
	}
	for len(args) > 0 {
		flag, isFlag := strings.CutPrefix(args[0].Text, "-")
		flag = strings.TrimPrefix(flag, "-")
		isModule := w.runsPython && isFlag && (flag == "m" || flag == "module")
		switch {
		case isModule:
			return append([]Argument{{Text: "python", Known: true}, {Text: "-m", Known: true}}, args[1:]...)
		case isFlag && flag == "": // "--", or "-" for standard input
			return w.skipOperands(args[1:])
		case isFlag:
			args = args[w.countFlagWords(flag, args):]
		case w.isSkipped(args[0]):
			args = args[1:]
		default:
			return w.skipOperands(args)
		}
	}
	return nil
}

// countFlagWords returns 2 for a flag with its value in a separate argument, otherwise 1.
func (w wrapper) countFlagWords(flag string, args []Argument) int {
	if len(args) > 1 && slices.Contains(strings.Fields(w.valueFlags), flag) {
		return 2
	}
	return 1
}

// isSkipped reports whether an argument before the program is neither an operand nor the program:
// a variable of the environment, or a shell variable. A shell variable counts as flags, unless the
// wrapper has operands.
func (w wrapper) isSkipped(a Argument) bool {
	return !a.Known && w.operands == 0 || w.setsVariables && variablePattern.MatchString(a.Text)
}

// skipOperands returns the command line after the operands of the wrapper.
func (w wrapper) skipOperands(args []Argument) []Argument {
	args = args[min(w.operands, len(args)):]
	if w.runsPython && len(args) > 0 && strings.HasSuffix(args[0].Text, ".py") {
		return append([]Argument{{Text: "python", Known: true}}, args...)
	}
	return args
}
