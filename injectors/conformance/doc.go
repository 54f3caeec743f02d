// Package conformance is what every injector and every front end has to pass.
//
// # The idea
//
// Two things are tested here once, for all.
//
// [Goldens] holds every front end (the engine itself, the webhook, the command
// line) to the same files: a manifest NAME.yaml below some testdata folder, and
// beside it NAME.golden with the warnings, the denials and the object that must
// come out. A golden file without its manifest fails, as does a manifest without
// its golden file. They are rewritten by
//
//	go test ./injectors -update
//
// and read by a person before they are committed; under CI the flag is refused.
//
// [Suite] holds every injector to the rules that make an injection trustworthy:
// applied twice it changes nothing, it takes nothing away, a user's value wins or
// is refused with its path, init containers are served too.
package conformance
