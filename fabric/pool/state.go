package pool

import (
	"fmt"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// A state is what Route and Peers return. It is replaced, never changed.
type state struct {
	peers  []peerState
	byGUID map[uint64]int // index in peers
	byGID  map[[16]byte]int
	byLID  map[uint16]int
}

type peerState struct {
	fabric.Peer
	link      *link
	path      nic.Path // without a port if the rings are not open
	addresses []Address
	opening   bool // the rings are being opened
}

func newState() *state {
	return &state{byGUID: make(map[uint64]int), byGID: make(map[[16]byte]int), byLID: make(map[uint16]int)}
}

// add adds a peer. The first one that has an address is the one that Route finds.
func (s *state) add(l *link) {
	peer := peerState{link: l, Peer: fabric.Peer{
		Name: fmt.Sprintf("node %d", l.peer), Up: l.up, Why: l.why, Since: l.since, Faults: l.faults,
	}}
	reached := l.pair != nil || l.alive && l.why == ""
	if l.epoch != 0 {
		peer.GUID, peer.addresses = l.desc.guid, l.desc.addresses
		peer.path.MTU = l.mtu()
	}
	if path := l.path.Load(); path != nil && !l.pair.leaving {
		peer.path, peer.MTU = *path, path.MTU
		peer.opening = !l.pair.wasUp
	} else if reached {
		peer.Up = true // as soon as somebody sends
	}
	i := len(s.peers)
	s.peers = append(s.peers, peer)
	if !reached {
		return
	}
	first(s.byGUID, peer.GUID, i)
	for _, a := range peer.addresses {
		first(s.byGID, a.GID, i)
		first(s.byLID, a.LID, i)
	}
}

// first puts a key into a map unless it is there, or is zero.
func first[K comparable](m map[K]int, k K, i int) {
	var zero K
	if _, ok := m[k]; !ok && k != zero {
		m[k] = i
	}
}

// find returns the peer with an address, nil if there is none.
func (s *state) find(to *nic.Address) *peerState {
	i, ok := 0, false
	switch {
	case to.GUID != 0:
		i, ok = s.byGUID[to.GUID]
	case to.GID != [16]byte{}:
		i, ok = s.byGID[to.GID]
	default:
		i, ok = s.byLID[to.LID]
	}
	if !ok {
		return nil
	}
	return &s.peers[i]
}
