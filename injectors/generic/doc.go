// Package generic injects gangs of any program: an inference server on several hosts, a simulation, or
// programs of several roles that exchange messages.
//
// # The idea
//
// The roles can have any names, in the order of the annotation roles. A program gets what it needs to
// find every other pod, and no variables of any framework. Together with the variables of every gang,
// such as ROLLCALL_RANK and ROLLCALL_SIZE, these variables are enough:
//
//	ROLLCALL_ROLES        leader=1,worker=4
//	ROLLCALL_INDEX        index of the pod in its role
//	ROLLCALL_ADDR_FORMAT  train-{role}-{index}.train.team.svc.cluster.local
//
// Their length does not depend on the number of pods, so the pod template stays small. A program in
// Python gets an address with format(role="worker", index=3).
//
// Programs that read a list of hosts get a file with the annotation hostfile. An init container writes
// the file, because the list can exceed the size limits of a pod template. The init container needs a
// shell in the image, so the file is not the default (docs/adr/0003-roles.md).
//
// A gang completes when all ranks succeed, and restarts when a rank fails. The annotation
// success-policy selects a role whose success completes the gang.
package generic
