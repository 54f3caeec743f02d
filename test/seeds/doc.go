// Package seeds reads the seed documents of the project: tutorials for other systems with manifests
// and training programs.
//
// # The idea
//
// The documents are real input, written by people who did not know Rollcall. They are not part of
// the repository but stored next to it, in ../shared/seeds. Tests read the manifests and programs
// that they need at run time. They are skipped if the documents are missing.
package seeds
