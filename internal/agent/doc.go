// Package agent starts processes in the pods of a gang without ssh. One static program is the server in
// the workers, the remote shell of the launcher, and the setup of both. It is also the probe that finds ranks
// without progress.
//
// # The idea
//
// Every launcher of MPI, Horovod and DeepSpeed needs one thing: a program with the arguments of ssh that
// runs a command on a host. The agent is this program. An init container copies it into a volume of the
// pod, so the image needs neither ssh, nor sshd, nor a user database.
//
//   - "agent setup" runs in an init container. It copies the program, writes the list of hosts, and waits in
//     the launcher until the hosts respond.
//   - "agent serve" is the main process of a worker.
//   - "agent exec HOST COMMAND" accepts the arguments of ssh. The program has the same effect under the
//     names ssh, rsh and kubexec.sh.
//   - "agent hosts" lists the hosts that respond, for elastic launchers.
//   - "agent monitor" counts the hosts that the launcher reached, in a sidecar.
//   - "agent install" copies the program into a volume of the pod, in an init container.
//   - "agent progress FILE TIMEOUT [PERIOD]" is a probe of a training container, see checkProgress.
//
// # Authentication
//
// The Secret of a gang contains one private key, which client and server share. Each side presents a
// certificate that it signs with the key itself, and accepts a peer only if the certificate of the peer has
// the same public key. TLS 1.3 proves that the peer has the private key. A pod of another gang has another
// key. The first message of a client names the host and the attempt that it expects. The server refuses
// a command for another host, which a stale DNS record causes, and a command of another attempt.
//
// # Processes
//
// A command runs in a session (setsid) of its own, with the environment, the working directory and the user
// of the worker. If the connection ends, the agent terminates all processes of the session and all
// descendants of the command. A process that started its own session after a successful exit of the command
// continues, as with ssh: Open MPI starts its daemons in this way.
//
// # Limits
//
// A client without the key costs at most 16 KiB of input and 10 seconds. The server keeps at most 128
// connections that are not authenticated, and closes the oldest for a new one. A frame has a maximum length
// that depends on its type and that is checked before memory is allocated.
//
// # Systems
//
// The program runs on Linux. The command line imports the paths and variables in config.go on other systems, too.
package agent
