package connections

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// closingConn is a connection that records that it was closed.
type closingConn struct {
	net.Conn
	name   string
	closed *[]string
}

func (c closingConn) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

// TestClients checks which connection closes if a bound is exceeded. Each client has the name of its peer and a
// number.
func TestClients(t *testing.T) {
	type step struct {
		client  string // the first letter is the peer
		doing   activity
		bytes   int
		refused bool
	}
	for name, c := range map[string]struct {
		total, peer usage
		steps       []step
		want        []string
	}{
		"the oldest incomplete request gives way to a new connection": {
			total: usage{connections: 3, bytes: 9}, peer: usage{connections: 3, bytes: 9},
			steps: []step{{client: "a1", doing: idle}, {client: "b1"}, {client: "b2"}, {client: "c1"}},
			want:  []string{"b1"},
		},
		"an idle connection gives way if no request is incomplete": {
			total: usage{connections: 2, bytes: 9}, peer: usage{connections: 2, bytes: 9},
			steps: []step{{client: "a1", doing: idle}, {client: "b1", doing: handled}, {client: "c1"}},
			want:  []string{"a1"},
		},
		"a peer that exceeds its bound affects only itself": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 1, bytes: 9},
			steps: []step{{client: "a1"}, {client: "b1"}, {client: "b2"}},
			want:  []string{"b1"},
		},
		"a peer within its share of the connections does not give way to complete requests": {
			total: usage{connections: 4, bytes: 9}, peer: usage{connections: 4, bytes: 9},
			steps: []step{
				{client: "a1", doing: idle},
				{client: "b1", doing: queued},
				{client: "b2", doing: queued},
				{client: "b3", doing: queued},
				{client: "b4", refused: true},
				{client: "a2"},
			},
			want: []string{"b4", "b1"},
		},
		"a connection is refused if its peer has most": {
			total: usage{connections: 1, bytes: 9}, peer: usage{connections: 1, bytes: 9},
			steps: []step{{client: "a1", doing: queued}, {client: "b1", refused: true}},
			want:  []string{"b1"},
		},
		"the oldest incomplete body gives way to other bodies": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{{client: "b1", bytes: 5}, {client: "b2", bytes: 4}, {client: "a1", bytes: 2}},
			want:  []string{"b1"},
		},
		"a peer within its share does not give way": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{
				{client: "a1", bytes: 3},
				{client: "b1", bytes: 2},
				{client: "b2", bytes: 3},
				{client: "b3", bytes: 2},
			},
			want: []string{"b1"},
		},
		"the oldest incomplete body is refused if it grows": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{{client: "b1", bytes: 5}, {client: "a1", bytes: 4}, {client: "b1", bytes: 1, refused: true}},
		},
		"the peer with most complete bodies gives way": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{
				{client: "b1", bytes: 4, doing: queued},
				{client: "b2", bytes: 4, doing: queued},
				{client: "a1", bytes: 1, doing: queued},
				{client: "a2", bytes: 2},
			},
			want: []string{"b1"},
		},
		"handled bodies count": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{{client: "b1", bytes: 9, doing: handled}, {client: "a1", bytes: 1, refused: true}},
		},
		"a finished request occupies nothing": {
			total: usage{connections: 9, bytes: 9}, peer: usage{connections: 9, bytes: 9},
			steps: []step{{client: "b1", bytes: 9, doing: idle}, {client: "a1", bytes: 9}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClients()
			s.total, s.peer, s.small = c.total, c.peer, 0
			var closed []string
			open := map[string]*client{}
			for _, step := range c.steps {
				if open[step.client] == nil {
					conn := closingConn{name: step.client, closed: &closed}
					open[step.client] = s.add(conn, step.client[:1]+":1")
				}
				added := open[step.client]
				ok := added != nil && added.hold(step.bytes)
				if ok == step.refused {
					t.Errorf("%s: refused: %t, want %t", step.client, !ok, step.refused)
				}
				if added != nil && step.doing != transferring {
					added.begin(step.doing)
				}
			}
			if diff := cmp.Diff(c.want, closed); diff != "" {
				t.Errorf("closed connections (-want +got):\n%s", diff)
			}
			for _, c := range open {
				if c != nil {
					_ = c.Close()
				}
			}
			if s.used != (usage{}) || len(s.peers) != 0 {
				t.Errorf("without clients, %+v is used by %v", s.used, s.peers)
			}
		})
	}
}
