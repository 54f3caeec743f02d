// Package jobset reads JobSets, and TrainJobs for package trainer.
//
// # The idea
//
// A JobSet is a list of replicated jobs with policies for all of them. It does not name a
// framework, and its controller sets no variables: users write the rendezvous into commands and
// variables, with hostnames such as js-workers-0-0.js. The reader therefore detects the framework
// from commands and variables ([Reader.ChooseFrameworkAndRoles]), unless the user names it.
//
// The replicated jobs that take part in the training become the roles of a gang. Variables that
// Rollcall sets to the same value are removed. Hostnames in all other texts are rewritten.
//
// Replicated jobs that do not take part in the training, such as a driver or an initializer, become
// plain Jobs. Rollcall does not delay a gang until such a Job is complete, so dependencies on these
// Jobs are dropped, and the report contains the kubectl wait command that replaces them.
//
// The behavior of the controller is that of JobSet v0.12.
package jobset
