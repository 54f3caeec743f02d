// Package paddle injects programs that paddle.distributed.launch starts.
//
// # The idea
//
// The launcher of Paddle runs in each pod, and the launchers connect to each other at PADDLE_MASTER. A
// launcher becomes the master if the host of PADDLE_MASTER is its own address, POD_IP
// (paddle/distributed/launch/controllers/master.py). PaddleJob sets PADDLE_MASTER to a different value
// in its first pod. A single template for all pods cannot do this. Instead, POD_IP is the full DNS name
// of the pod, which the launcher accepts. On rank 0, this name equals the host of PADDLE_MASTER.
package paddle
