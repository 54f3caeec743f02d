// Package check verifies an installation of Rollcall, before and after it is installed.
//
// # The idea
//
// An installation has many parts, and a wrong part often has no effect until somebody creates a gang.
// Package check reads all parts and judges them together. [Reader.Read] observes [Facts] with a client.
// It only reads and sends dry runs. [Judge] is pure: it turns facts into a [Report] with one [Result] for
// each check, and the fix of each problem.
//
// A fact that cannot be read is [Unknown], and not an error: the result names the missing permission.
// The strongest check needs few permissions: a labeled Job that is created as a dry run must be returned
// with the injection, and an invalid Job must be denied by the webhook. Both requests pass the network,
// the certificates and the selectors as each user's request does.
//
// Names of objects come from the webhook configurations and from the arguments of the Deployments, so
// that the package does not depend on the names of the chart.
package check
