// Package ssh lets the launcher of a gang start processes in its other pods: by the
// ssh of the image, with keys of the gang's own.
//
// # The idea
//
// MPI, Horovod and DeepSpeed start a program on many hosts with nothing but a list
// of them and ssh. The list is a matter of names, which are known at admission. The
// rest fails in a container in a dozen small ways: keys that others may read, users
// without a name, a daemon that wants to be root, a launcher that is there before
// its workers.
//
// So an init container, of the training container's own image and running as its
// user, makes all of it in a volume of the pod: keys that are that user's alone, a
// passwd in which that user has a name, configurations of ssh and sshd, and the
// hostfiles, written out from "train-worker, 0 to 14999" rather than stored, so that
// their length meets no limit (docs/adr/0012). In the launcher it returns when every
// host answers with the gang's key. A worker without a command runs sshd, as any
// user, on a port above 1023.
//
// A second container beside the launcher counts the hosts that were reached. When
// none was, all ranks ran in the launcher and nobody else would have noticed: Open
// MPI does that when it finds no hostfile.
package ssh
