// Package command finds the programs that the command of a container runs.
//
// # The idea
//
// The command of a training container rarely is the training program. A shell runs a script, the
// script sets variables, a profiler or a tool for environments starts a launcher, and the launcher
// starts the program. [Parse] follows the command like a shell would, and returns every [Program]
// with its arguments. [Launchers.Find] recognizes launchers, such as torchrun, in all of their
// spellings.
//
// [Scanner.Scan], [ScanProcessCounts] and [ScanFlags] only read words. Admission uses the first two, because they
// need little time for each input. ScanFlags also finds flags after those that no table has.
//
// The knowledge about programs is data. A table of this package contains the wrappers that start another
// program. The launchers are facts of the frameworks: each folder below injectors lists its own, and callers
// pass them in.
//
// The result is incomplete by nature. Values of shell variables and the output of commands are
// unknown, and so are entry points of images. A caller must not conclude anything from the absence
// of a program, unless it knows all programs of the command.
package command
