// Package configmap provides the policy of the cluster to the webhooks and the reconciler.
//
// # The idea
//
// The policy is one file in one ConfigMap ([FileKey]). [Source] watches the ConfigMap and reads each
// new version with package policy. A valid file is in force within seconds. A file with a mistake is
// not: the last valid policy stays in force, and the metric rollcall_policy_valid becomes 0.
//
// The last valid policy must survive a restart, and a new replica must not start without a policy. So
// the leader writes each valid file to a second ConfigMap ([Keeper]). A process that starts with an
// invalid file takes the policy from there. Without both, [Source.Ready] fails, and the webhooks deny
// labeled workloads: a mistake in the file never admits what the policy denies.
//
// The webhook for the ConfigMap ([FileHandler]) denies an invalid file when somebody applies it. Its
// failure policy is Ignore, so that an administrator can always repair the file.
package configmap
