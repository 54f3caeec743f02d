package gang

import (
	"slices"
	"strings"
)

// losses are the words with which programs end that lost another rank. Where several
// ranks fell within the same second, one that says so is not the first: its peer was. They
// are those of the libraries by which ranks talk, whichever framework uses them.
//
// Words that programs print who are well, such as those of a first try to connect, do not
// belong here, nor do those of one that cannot reach its data.
var losses = []string{
	// Printed by ranks that lost one in test/e2e/peer_test.go.
	"gloo/transport/",                     // Gloo's exceptions begin with their place in its source: PyTorch, Paddle
	"Connection reset by peer",            // ECONNRESET: LightGBM, and whoever else prints it
	"Poll error condition",                // XGBoost's collective
	"Collective ops is aborted by",        // TensorFlow
	"stopped sending heartbeats",          // the coordination service of TensorFlow
	"tensorflow.CoordinationServiceError", // that of JAX, which is the same
	"indicates that another task died",    // JAX, before it aborts
	// Read in the sources, or the manual, of who prints them.
	"remote process exit",              // ncclRemoteError, in NCCL's words ("exited") and in PyTorch's ("exiting")
	"Connection closed by remote peer", // NCCL's sockets
	"Broken pipe",                      // EPIPE
}

// lost reports whether a container's last words tell that its rank lost another one.
func lost(words string) bool {
	return slices.ContainsFunc(losses, func(l string) bool { return strings.Contains(words, l) })
}
