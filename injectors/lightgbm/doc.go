// Package lightgbm plans the addresses through which the ranks of LightGBM connect to each other.
//
// # The idea
//
// LightGBM has no rendezvous. Every rank needs the list of all machines before it starts. In
// training-operator, LightGBM runs as an XGBoostJob, and the program builds the parameter machines of
// LightGBM from MASTER_ADDR and WORKER_ADDRS. The variables are therefore those of XGBoostJob.
// LightGBM compares the list with the IP addresses of its own host, so a program must resolve the names
// first, as examples/lightgbm does.
//
// A gang with a master completes with the master, as an XGBoostJob does. A gang without a master completes
// when all workers succeed: each rank has the complete model at the end, and no rank is known to write
// the result. The annotation success-policy: rank0 selects the first rank.
package lightgbm
