// Package podtest builds pods of a gang for tests: a running rank, variables of its container, and changes
// that terminate, delete or restart its containers. Only tests import the package.
package podtest
