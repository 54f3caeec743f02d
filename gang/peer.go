package gang

import (
	"slices"
	"strings"
)

// losses are the words with which programs end that lost another rank. Where several
// ranks fell within about a second, one that says so is not the first: its peer was. They
// are those of the libraries by which ranks talk, whichever framework uses them.
//
// Words do not belong here that programs print who are well, such as those of a first try to
// connect, nor those of one that cannot reach its data: "Connection reset by peer" may be
// either's.
var losses = []string{
	// Printed by ranks that lost one in test/e2e/peer_test.go.
	"gloo/transport/",                     // Gloo's exceptions begin with their place in its source: PyTorch, Paddle
	"Socket recv error",                   // LightGBM
	"Poll error condition",                // XGBoost's collective
	"stopped sending heartbeats",          // the coordination service of TensorFlow
	"tensorflow.CoordinationServiceError", // that of JAX, which is the same
	"indicates that another task died",    // JAX, before it aborts
	// Read in the sources, or the manual, of who prints them.
	"Socket send error",   // LightGBM
	"remote process exit", // ncclRemoteError, in NCCL's words ("exited") and in PyTorch's ("exiting")
	"socketProgress",      // NCCL's sockets, in what PyTorch prints as its last error
}

// lost reports whether a container's last words tell that its rank lost another one.
func lost(words string) bool {
	return slices.ContainsFunc(losses, func(l string) bool { return strings.Contains(words, l) })
}
