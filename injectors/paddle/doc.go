// Package paddle injects programs that paddle.distributed.launch starts.
//
// # The idea
//
// Paddle's launcher runs once in each pod, and the pods meet at PADDLE_MASTER. Which
// of them becomes the master, each decides alone: the one whose own address, POD_IP,
// is the host of PADDLE_MASTER (paddle/distributed/launch/controllers/master.py).
// PaddleJob gave its first pod another value of PADDLE_MASTER than the others, its own
// address. One template for all pods cannot do that, and need not: POD_IP may be a
// name. It is the pod's own complete one, which on rank 0 is the master's.
package paddle
