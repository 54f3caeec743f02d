// Package lightgbm gives LightGBM the addresses by which its ranks meet.
//
// # The idea
//
// LightGBM has no rendezvous: every rank needs the list of all machines before it
// starts. training-operator ran it as an XGBoostJob, and its programs join
// MASTER_ADDR and WORKER_ADDRS into LightGBM's parameter machines; so the
// variables are the same. It compares machines with its own addresses as numbers, so
// a program resolves the names first; examples/lightgbm does.
package lightgbm
