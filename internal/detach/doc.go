// Package detach ends the management of gangs by Rollcall, before Rollcall is uninstalled or if no
// manager runs any more.
//
// A detached gang keeps running, or is resumed if Rollcall suspended it for a restart. It has the label
// rollcall.training/inject: "false", so that no manager restarts it in the meantime. One patch of a
// workload does all of that: a manager either sees a workload that it manages, or one that runs without
// Rollcall. A manager that acts on an older version of the workload gets a conflict.
//
// A gang is resumed as in a restart, but without the back-off: after the controller of each workload has
// observed the suspension, and after the pods of the last attempt have terminated. A pod on an unreachable
// node must be excluded from the Service. Kueue resumes the Jobs in its queues.
//
// Docs: docs/adr/0006-restart-limits.md.
package detach
