package failure

import (
	"slices"
	"strings"
)

// lostPeerPatterns are texts that communication libraries print when a rank loses a peer. They apply
// to all frameworks, because frameworks share the libraries.
//
// Do not add a text that a healthy rank may print, such as the warning of a first connection
// attempt. Do not add a text that may refer to storage either: "Connection reset by peer" can come
// from a rank that cannot read its data.
var lostPeerPatterns = []string{
	// Observed in the output of ranks that lost a peer, see test/e2e/lost_peer_test.go.
	"gloo/transport/",                     // PyTorch and Paddle: exceptions of Gloo start with their source file
	"Socket recv error",                   // LightGBM
	"Poll error condition",                // collectives of XGBoost
	"stopped sending heartbeats",          // coordination service of TensorFlow
	"tensorflow.CoordinationServiceError", // coordination service of JAX
	"indicates that another task died",    // JAX, before it aborts
	"rollcall: the connection to host ",   // the agent; see agentReport
	// Taken from the source code or the manual of the library.
	"Socket send error",   // LightGBM
	"remote process exit", // ncclRemoteError: NCCL prints "exited", PyTorch prints "exiting"
	"socketProgress",      // sockets of NCCL, in the last error that PyTorch prints
}

// reportsLostPeer reports whether the text of a termination message contains a pattern of a lost
// peer.
func reportsLostPeer(text string) bool {
	return slices.ContainsFunc(lostPeerPatterns, func(pattern string) bool { return strings.Contains(text, pattern) })
}
