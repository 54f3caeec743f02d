// Package buildinfo reports which version of Rollcall a program is.
//
// A release sets the version and the commit when it links a program, so that the same commit gives the
// same program in every checkout. All other builds have what the go command recorded.
package buildinfo
