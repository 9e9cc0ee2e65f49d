package pool

// Offsets in the first line of a node's part, which says whether the node lives and what of it has changed:
// the other nodes read this line only, as long as nothing has.
const (
	heartbeatAt = 0  // counts up
	epochAt     = 8  // of this life of the node: random, the low 32 bits are 0
	identityAt  = 16 // of the pool that the node has joined
	stateAt     = 24
	changesAt   = 32 // of the table of pairs: another number after each change
	postedAt    = 40 // sequence of the board
	describedAt = 48 // sequence of the description
	roomAt      = 56 // looks of the node at the others' summaries:32 | how many new rings it has room for:32
)

// States of a node.
const (
	statePresent = 1
	stateLeft    = 2 // the node has closed the pool
)

// A life is the first line of a node's part.
type life struct {
	heartbeat, epoch, identity, state uint64
	changes, posted, described, room  uint64
	looks                             uint32
}

// life reads the line. If the state is statePresent, the rest belongs together. A node
// that stops or starts while it is read is found by the next read.
//
// Observe: state, published by Pool.join and Pool.leave; heartbeat, published by Pool.tick; changes, posted
// and described, published by Pool.report.
func (v *view) life(part uint64) (l life) {
	at := part + lifeAt
	v.invalidate(at, line)
	l.state = v.word(at + stateAt)
	l.epoch = v.word(at + epochAt)
	l.identity = v.word(at + identityAt)
	l.heartbeat = v.word(at + heartbeatAt)
	l.changes = v.word(at + changesAt)
	l.posted = v.word(at + postedAt)
	l.described = v.word(at + describedAt)
	room := v.word(at + roomAt)
	l.room, l.looks = room&(1<<32-1), uint32(room>>32)
	return l
}

// putLife writes the line, but not the heartbeat.
//
// Publish: state. Observed by view.life of other nodes.
func (v *view) putLife(part uint64, l *life) {
	at := part + lifeAt
	v.put(at+epochAt, l.epoch)
	v.put(at+identityAt, l.identity)
	v.put(at+changesAt, l.changes)
	v.put(at+postedAt, l.posted)
	v.put(at+describedAt, l.described)
	v.put(at+roomAt, uint64(l.looks)<<32|l.room&(1<<32-1))
	v.put(at+stateAt, l.state)
	v.writeBack(at, line)
}
