// Package roster determines which workloads form a gang.
//
// Admission and the API server handle each workload separately. Only its labels, annotations and name say
// which gang it belongs to, and names are reused: a run of last week, a workload of another team and a typo
// all look like members. This package holds the rules for that, for the controller and for the commands.
//
//   - [GroupWorkloads] collects the workloads with the same name of a gang.
//   - [ReadMember] parses a workload with the rules of admission.
//   - [New] selects the members of a gang of several workloads. [Identify] has the rules: who belongs to an
//     earlier run, who is a stranger, and whose status is the state of the gang.
//   - [ReadGangs] does all of this for the workloads of a cluster, as the commands need them.
//   - [FindConflicts] compares the settings that all members must share.
//
// The package decides nothing about pods: [rollcall.training/internal/lifecycle] does.
package roster
