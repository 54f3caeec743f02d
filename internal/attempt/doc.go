// Package attempt ends and starts the attempts of a gang's workloads: it changes the workloads in memory
// so that their controllers terminate or create the pods. The reconciler and rollcall detach write the
// result.
//
// A workload is suspended by spec.suspend of a Job, or by 0 replicas of a StatefulSet. See
// docs/adr/0005-restarts.md.
package attempt
