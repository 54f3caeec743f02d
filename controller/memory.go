package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what the reconciler keeps of gangs of several between two looks: what it
// may not ask the API server for, or what would cost a write to keep there. A manager
// that starts anew does without it. Its zero value is empty.
type memory struct {
	mu    sync.Mutex
	gangs map[Request]*remembered
}

// remembered is what is kept of one gang. It belongs to the one look at that gang.
type remembered struct {
	// missingSince is when a member was first found missing; zero when none is.
	missingSince time.Time
	// keyPairOf is the owner for which a key pair is to be made, once for each attempt; keyPairMade is true when
	// this process has made it, and else keyPairNext is when it tries again.
	keyPairOf   types.UID
	keyPairFor  int32 // the attempt
	keyPairMade bool
	keyPairNext time.Time
	// written is the version of each member over which its status was written last. A
	// cache that still holds that version has not seen the write.
	written map[types.UID]string
	// looks counts how often the launcher's pod was asked which hosts it reached.
	looks int
}

// of returns what is kept of a gang, to be changed in place.
func (m *memory) of(req Request) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gangs == nil {
		m.gangs = map[Request]*remembered{}
	}
	if m.gangs[req] == nil {
		m.gangs[req] = &remembered{}
	}
	return m.gangs[req]
}

// forget drops what is kept of a gang that is gone.
func (m *memory) forget(req Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gangs, req)
}

// wrote notes that a member's status was written over a version of it.
func (k *remembered) wrote(uid types.UID, version string) {
	if k.written == nil {
		k.written = map[types.UID]string{}
	}
	k.written[uid] = version
}

// pace is how long to wait before something is tried again for a gang that is so old:
// often at first, and ever more rarely, since what has not come in an hour will not
// come in the next second.
func pace(age time.Duration) time.Duration {
	return min(max(age/4, 2*time.Second), 5*time.Minute)
}
