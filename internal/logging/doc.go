// Package logging writes the log of the manager, in which every line is a JSON object with the same keys.
//
// # The idea
//
// Four sources write to the log of a process: Rollcall itself and controller-runtime through logr,
// Kubernetes libraries through klog, and net/http through the standard package log. Each of them has its
// own format by default. [SetUp] gives all of them the same handler of log/slog, so that a log collector
// needs one parser.
//
// The reference page docs/reference/logs.md describes the keys.
package logging
