// Package recorded contains workloads of gangs that earlier builds of Rollcall wrote. The tests of this build
// read them: a gang must survive each upgrade.
//
// [Builds] returns the workloads as an API server stored them: injected by the webhook of the build, with the
// status that its controller wrote. README.md lists the builds and describes how to record another one.
package recorded
