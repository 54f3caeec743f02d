// Package otherlauncher contains a copy of the framework mpi with another name and another launcher. Tests of
// several packages check with it that no package needs to know a framework by its name.
package otherlauncher
