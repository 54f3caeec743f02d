package connections

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxPortConnections and maxPortConnectionsOfPeer are numbers of connections of a [NewPort]. Its clients are the
	// kubelet of the node and a few collectors of metrics.
	maxPortConnections       = 128
	maxPortConnectionsOfPeer = 64
	// portShutdownTimeout is how long a shutdown waits for the requests in flight. The next leader waits as long.
	portShutdownTimeout = time.Second
)

// NewPort listens on an address, and returns a server of probes or metrics for every client that can connect. It has
// the bounds of [Limit] with fewer connections. The servers of controller-runtime have no bounds, so any pod could
// use the memory of the process, or prevent the probes of the kubelet. The server uses TLS if config is not nil.
func NewPort(name, address string, h http.Handler, config *tls.Config) (*manager.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	clients := newClients()
	clients.total.connections, clients.peer.connections = maxPortConnections, maxPortConnectionsOfPeer
	listener = limitedListener{Listener: listener, clients: clients}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return &manager.Server{
		Name:            name,
		Server:          NewServer(NewLimiter(MaxRequests).limitReads(h)),
		Listener:        listener,
		ShutdownTimeout: new(portShutdownTimeout),
	}, nil
}

// limitReads returns a handler for requests without a body.
func (l *Limiter) limitReads(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := l.Begin(w, r)
		defer request.End()
		if !request.AcquireSlot("") {
			http.Error(w, "too many other requests", http.StatusTooManyRequests)
			return
		}
		request.Serve(h)
	})
}
