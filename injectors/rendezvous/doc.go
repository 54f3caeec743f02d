// Package rendezvous holds the variables by which ranks find rank 0, as far as
// several frameworks read the same ones.
//
// # The idea
//
// MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE began with torch.distributed and
// were taken over by training-operator for gradient boosting, and by DeepSpeed.
// Their values and their policies are the same wherever they appear, so they are
// planned here once; what differs between frameworks, they say themselves.
package rendezvous
