// Package pages follows pages of the documentation on a cluster: it saves their files, runs their commands, and
// compares the outputs with those that the pages show.
package pages
