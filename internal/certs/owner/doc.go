// Package owner makes the ServiceAccount of Rollcall the owner of the objects that Rollcall creates for
// itself at run time. Uninstalling Rollcall then also deletes these objects.
//
// # The idea
//
// The webhook creates the Secret with the CA, and the controller creates the Lease of the leader election.
// The tool that installed Rollcall, Helm or kubectl, does not know these objects and would not delete
// them. Empty objects in the installation are not a solution. If such an object is deleted and recreated
// at run time, it has no labels of the installer, and Helm does not delete it (Helm 4.3,
// pkg/action/validate.go: verifyOwnershipBeforeDelete).
//
// The objects therefore get an owner that the installer deletes: the ServiceAccount of the process. The
// garbage collector deletes the objects after their owner. Without the ServiceAccount, the process has no
// permission to recreate them. A SelfSubjectReview returns the name and the UID of the ServiceAccount.
// Every user may create a SelfSubjectReview (system:basic-user). So the name needs no configuration, and
// the process needs no permission to read ServiceAccounts.
//
// The admission plugin OwnerReferencesPermissionEnforcement requires permission to delete an object for
// every change of its owners.
package owner
