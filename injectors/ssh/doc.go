// Package ssh lets the launcher of a gang start processes in the other pods of the gang. It uses the
// ssh of the image, and a key pair that belongs to the gang.
//
// # The idea
//
// MPI, Horovod and DeepSpeed start a program on many hosts. They only need a list of the hosts, and
// ssh. The list follows from names that are known at admission. ssh itself fails in a container for
// many small reasons: private keys that other users can read, users without a name, an sshd that
// requires root, a launcher that starts before its workers.
//
// An init container solves these problems. It uses the image and the user of the training container,
// and writes into volumes of the pod:
//
//   - the keys, owned by the user and readable only by the user,
//   - a passwd in which the user has a name,
//   - the configurations of ssh and sshd,
//   - the hostfiles. The pod template contains only "train-worker 0 14999", and the script prints the
//     hosts, so that no size limit applies to the list (docs/adr/0010-connections.md).
//
// In the launcher, the init container returns after the required hosts respond with the key of the
// gang. A worker without a command runs sshd, as any user, on a port above 1023.
//
// A sidecar of the launcher counts the hosts that the launcher reached. If the launcher reached no
// host, all ranks ran in the launcher, which happens if Open MPI does not find a hostfile. The
// program succeeds in that case, so only the count reveals the mistake.
package ssh
