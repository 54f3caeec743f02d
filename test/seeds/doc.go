// Package seeds reads the documents that the project began with: tutorials, as their
// readers find them, with manifests for other systems and the programs that those
// run.
//
// # The idea
//
// They are real input, written by people who did not know of Rollcall. They stand
// beside the repository, in ../shared/seeds, and are never part of it: tests cut out
// of them what they need when they run, and say so where the documents are missing.
package seeds
