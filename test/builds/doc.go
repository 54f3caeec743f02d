// Package builds provides the source of earlier builds of Rollcall for tests of upgrades.
//
// # The idea
//
// An earlier build is a commit of this repository. [Extract] copies the files of the commit into a
// folder of the user's cache, in which the go command builds its manager and helm finds its chart:
//
//	dir := builds.Require(t, builds.Previous)
//	m := installation.NewFromSource(t, c, dir)
//
// The source comes from the git history of the clone. A shallow clone and the archive of a release have
// no history, so the tests are skipped there and print the reason.
package builds
