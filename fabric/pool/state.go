package pool

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// A state is what Route and Peers return. The goroutine of watch changes it while others read it: it replaces
// what is known of a node when that has changed. So a change costs as much in a pool of 1,024 nodes as in one
// of two.
type state struct {
	lost  atomic.Pointer[string]      // why this node is not in the pool; nil: it is
	nodes []atomic.Pointer[peerState] // by the number of the node; nil: it has not been seen
	index index

	number int // of this node
}

// A peerState is what is known of a node at one time. It is never changed.
type peerState struct {
	link      *link
	guid      uint64 // of the engine; 0 if it is not known
	addresses []Address
	path      nic.Path // without a port if the rings are not open

	reached bool // Route finds the node by its addresses
	opening bool // the rings are being opened
	up      bool
	why     string
	since   time.Time
	faults  uint64
}

func newState(number, nodes int) *state {
	return &state{nodes: make([]atomic.Pointer[peerState], nodes), number: number}
}

// stateOf returns what is known of a node now.
func stateOf(l *link) *peerState {
	s := &peerState{link: l, up: l.up, why: l.why, since: l.since, faults: l.faults}
	s.reached = l.pair != nil || l.alive && l.why == ""
	if l.epoch != 0 {
		s.guid, s.addresses = l.desc.guid, l.desc.addresses
		s.path.MTU = l.mtu()
	}
	if path := l.path.Load(); path != nil && !l.pair.leaving {
		s.path, s.opening = *path, !l.pair.wasUp
	} else if s.reached {
		s.up = true // as soon as somebody sends
	}
	return s
}

// peer returns what Peers returns of a node.
func (s *peerState) peer() fabric.Peer {
	p := fabric.Peer{
		Name: fmt.Sprintf("node %d", s.link.peer), GUID: s.guid, Up: s.up, Why: s.why, Since: s.since,
		Faults: s.faults, WrongSums: s.link.wrongSums.Load(),
	}
	if s.path.Port != nil {
		p.MTU, p.Stats = s.path.MTU, s.path.Port.Stats()
	}
	return p
}

// put replaces what is known of a node. Route finds the node all the time by addresses that it keeps.
func (s *state) put(now *peerState) {
	node := &s.nodes[now.link.peer]
	before := node.Load()
	if before != nil && before.reached == now.reached && before.guid == now.guid &&
		slices.Equal(before.addresses, now.addresses) {
		node.Store(now)
		return
	}
	for k := range now.keys {
		s.index.add(k, now.link.peer)
	}
	node.Store(now)
	if before == nil {
		return
	}
	for k := range before.keys {
		if !now.has(k) {
			s.index.remove(k, now.link.peer)
		}
	}
}

// keys calls yield with each key by which Route finds the node.
func (s *peerState) keys(yield func(key) bool) {
	if !s.reached || s.guid != 0 && !yield(guidKey(s.guid)) {
		return
	}
	for _, a := range s.addresses {
		if a.GID != [16]byte{} && !yield(key{by: byGID, value: a.GID}) {
			return
		}
		if a.LID != 0 && !yield(lidKey(a.LID)) {
			return
		}
	}
}

// has reports whether Route finds the node by a key.
func (s *peerState) has(k key) bool {
	for own := range s.keys {
		if own == k {
			return true
		}
	}
	return false
}

// find returns the node with an address, nil if there is none: that with the lowest number if there are
// several.
func (s *state) find(to *nic.Address) *peerState {
	k := keyOf(to)
	for _, at := range s.index.nodes(k) {
		if at.key != k {
			continue
		}
		if peer := s.nodes[at.node].Load(); peer != nil && peer.has(k) {
			return peer
		}
	}
	return nil
}

// peers calls yield with all nodes that have been seen, by their numbers.
func (s *state) peers(yield func(*peerState) bool) {
	for i := range s.nodes {
		if peer := s.nodes[i].Load(); peer != nil && !yield(peer) {
			return
		}
	}
}
