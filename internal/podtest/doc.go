// Package podtest builds pods of a gang for tests: a running rank, and changes that terminate, delete
// or restart its containers. Only tests import the package.
package podtest
