package connections

import (
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// closedConnections counts the connections that [clients] closed to remain within its bounds.
var closedConnections = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "rollcall_admission_closed_connections_total",
	Help: "Number of connections to any port that were closed because connections or bodies exceeded a bound.",
})

func init() { metrics.Registry.MustRegister(closedConnections) }

// The bounds of what clients occupy without a slot. Nobody has authenticated them, unless the server requires client
// certificates. API servers are few, so the bounds for one address are large.
const (
	// MaxConnections and maxConnectionsOfPeer are numbers of connections. An API server uses a connection for each
	// request in flight, by default up to 600. A proxy connects for all of them.
	MaxConnections       = 1024
	maxConnectionsOfPeer = 640
	// maxBodyBytes and maxBodyBytesOfPeer bound the requests that have no response yet, and the responses.
	// The first smallBytes of each do not count, because the number of connections bounds them.
	maxBodyBytes       = 32 << 20
	maxBodyBytesOfPeer = 16 << 20
	smallBytes         = 32 << 10
)

// usage is what one peer or all peers occupy.
type usage struct{ connections, bytes int }

func (u usage) exceeds(limit usage) bool {
	return u.connections > limit.connections || u.bytes > limit.bytes
}

// activity is what happens on a connection.
type activity int

const (
	// transferring means that the server waits for the client, which has to send a handshake, a header or a body, or
	// to read a response.
	transferring activity = iota
	// queued means that the request is complete and waits for its slot.
	queued
	// handled means that the request has a slot.
	handled
	// idle means that the last request has been handled.
	idle
)

// clients are the open connections of a server. If they exceed a bound, the connection closes for whose client
// the server has waited for the longest time: the request of an API server arrives within milliseconds. Without this
// rule, clients that stop in the middle of a request would exclude others until their deadlines. Peers with at most
// their share keep their connections. Otherwise, clients that complete many requests would exclude others.
type clients struct {
	total, peer usage // the bounds
	small       int   // the bytes of each client that do not count

	mu      sync.Mutex
	open    map[*client]bool
	used    usage
	peers   map[string]usage
	changes int // the number of changes of activities
}

func newClients() *clients {
	return &clients{
		total: usage{connections: MaxConnections, bytes: maxBodyBytes},
		peer:  usage{connections: maxConnectionsOfPeer, bytes: maxBodyBytesOfPeer},
		small: smallBytes,
		open:  map[*client]bool{},
		peers: map[string]usage{},
	}
}

// client is the other side of a connection. It is the connection that the server sees.
type client struct {
	net.Conn // nil in a test without connections
	all      *clients
	peer     string // the IP address
	// The mutex of all protects these fields.
	doing activity
	since int // the change that began the activity
	size  int // the length of the body or of the response, as far as it is known
	bytes int // those that count
}

// limitedListener accepts the connections within the bounds.
type limitedListener struct {
	net.Listener
	clients *clients
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err // without a wrapper, because the server compares the error
		}
		if c := l.clients.add(conn, conn.RemoteAddr().String()); c != nil {
			return c, nil
		}
	}
}

// add adds a connection. It returns nil, after it closed the connection, if no other connection can be closed
// instead.
func (s *clients) add(conn net.Conn, address string) *client {
	peer, _, err := net.SplitHostPort(address)
	if err != nil {
		peer = address
	}
	c := &client{Conn: conn, all: s, peer: peer}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	s.use(c, usage{connections: 1})
	s.begin(c, transferring)
	if !s.makeRoom(c) {
		s.close(c)
		return nil
	}
	return c
}

// Close implements [net.Conn].
func (c *client) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	if c.Conn == nil {
		return nil
	}
	return c.Conn.Close() // without a wrapper, because the server compares the error
}

// begin records what happens on the connection from now on. The bytes count until the next
// response or request.
func (c *client) begin(doing activity) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.begin(c, doing)
}

// hold counts bytes of the body or of the response, and reports whether the client may continue.
func (c *client) hold(bytes int) bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if !c.all.open[c] {
		return false
	}
	c.size += bytes
	c.all.use(c, usage{bytes: max(0, c.size-c.all.small) - c.bytes})
	return c.all.makeRoom(c)
}

// The following methods require the mutex.

func (s *clients) begin(c *client, doing activity) {
	s.changes++
	c.doing, c.since = doing, s.changes
	if (doing == idle || doing == transferring) && s.open[c] {
		c.size = 0
		s.use(c, usage{bytes: -c.bytes})
	}
}

// use adds to what a client occupies.
func (s *clients) use(c *client, more usage) {
	c.bytes += more.bytes
	peer := s.peers[c.peer]
	for _, u := range []*usage{&s.used, &peer} {
		u.connections += more.connections
		u.bytes += more.bytes
	}
	if s.peers[c.peer] = peer; peer == (usage{}) {
		delete(s.peers, c.peer)
	}
}

func (s *clients) remove(c *client) {
	if s.open[c] {
		delete(s.open, c)
		s.use(c, usage{connections: -1, bytes: -c.bytes})
	}
}

// close closes a connection. This ends a pending read of the body, and the wait for a slot.
func (s *clients) close(c *client) {
	s.remove(c)
	closedConnections.Inc()
	if c.Conn != nil {
		_ = c.Conn.Close() // the server closes it again
	}
}

// makeRoom closes connections until nothing exceeds a bound. It returns false if it cannot, or if the next one to
// close is that of c.
func (s *clients) makeRoom(c *client) bool {
	for {
		all := false // whether all peers together exceed a bound
		switch used := s.peers[c.peer]; {
		case used.exceeds(s.peer):
		case s.used.exceeds(s.total):
			all = true
		default:
			return true
		}
		victim := s.findVictim(c, all)
		if victim == nil || victim == c {
			return false
		}
		s.close(victim)
	}
}

// findVictim returns the connection to close next, or nil. The parameter all means that any peer is considered
// instead of the peer of c only.
func (s *clients) findVictim(c *client, all bool) *client {
	count := func(u usage) int { return u.connections }
	incomplete := func(o *client) bool { return o != c && (o.doing == transferring || o.doing == idle) }
	if s.used.bytes > s.total.bytes || s.peers[c.peer].bytes > s.peer.bytes {
		count = func(u usage) int { return u.bytes }
		incomplete = (*client).holdsTransfer
	}
	if !all {
		return s.findOldest(func(o *client) bool { return incomplete(o) && o.peer == c.peer })
	}
	share := s.fairShare(count)
	victim := s.findOldest(func(o *client) bool { return incomplete(o) && count(s.peers[o.peer]) > share })
	if victim == nil || victim == c {
		return s.findQueuedOfLargest(c, count)
	}
	return victim
}

// holdsTransfer reports whether the client has not completed what it occupies bytes for.
func (c *client) holdsTransfer() bool { return c.doing == transferring && c.bytes > 0 }

// findQueuedOfLargest returns the oldest complete request of the peer that occupies most, or c if that is its own
// peer.
func (s *clients) findQueuedOfLargest(c *client, count func(usage) int) *client {
	largest := c.peer
	for peer, used := range s.peers {
		if count(used) > count(s.peers[largest]) {
			largest = peer
		}
	}
	if largest == c.peer {
		return c
	}
	return s.findOldest(func(o *client) bool { return o.doing == queued && o.peer == largest })
}

// fairShare returns what every peer may occupy at the same time.
func (s *clients) fairShare(count func(usage) int) int {
	peers := 0
	for _, used := range s.peers {
		if count(used) > 0 {
			peers++
		}
	}
	return count(s.total) / max(peers, 1)
}

// findOldest returns the selected client whose activity began first. A client for which the server waits precedes
// others.
func (s *clients) findOldest(selects func(*client) bool) *client {
	var oldest *client
	for c := range s.open {
		if selects(c) && (oldest == nil || c.precedes(oldest)) {
			oldest = c
		}
	}
	return oldest
}

func (c *client) precedes(other *client) bool {
	if (c.doing == transferring) != (other.doing == transferring) {
		return c.doing == transferring
	}
	return c.since < other.since
}

// clientKey is the key of the client in the context of a request.
type clientKey struct{}

// clientOf returns the client that sent a request, and a function to call after the request. A server of a test has
// no [limitedListener], so the client exists only for the request.
func (s *clients) clientOf(r *http.Request) (*client, func()) {
	if c, ok := r.Context().Value(clientKey{}).(*client); ok {
		c.begin(transferring)
		return c, func() { c.begin(idle) }
	}
	c := s.add(nil, r.RemoteAddr)
	return c, func() { _ = c.Close() }
}
