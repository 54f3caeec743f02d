// Package lightgbm gives LightGBM the addresses by which its ranks meet.
//
// # The idea
//
// LightGBM has no rendezvous: every rank needs the list of all machines before it
// starts. training-operator ran it as an XGBoostJob, and its programs join
// MASTER_ADDR and WORKER_ADDRS into LightGBM's parameter machines; so the
// variables are the same. It compares machines with its own addresses as numbers, so
// a program resolves the names first; examples/lightgbm does.
//
// A gang with a master is done when the master is, as with XGBoostJob. One of workers
// alone is done when all are: ranks are peers, each of which has the whole model at the
// end, and none of them is known to be the one whose work counts. success-policy: rank0
// says that it is the first.
package lightgbm
