// Package verdict judges workloads by a policy as admission would: with defaults, injection and all members
// of their gang.
//
// [Judge] returns one [Verdict] for each labeled workload. [ReadSuite] reads a file with test cases for a
// policy, and [Suite.Run] compares each case with its verdicts and collects the [Coverage] of the rules.
// [Compare] returns the workloads whose verdict differs between two policies.
//
// The package has no client and no clock. The command line uses it, and nothing else.
package verdict
