package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A held is the part of a client's memory at which a shard's thread may have been held
// up, as far as it is known.
type held struct {
	subject
	what    string // a request; empty: a queue's work
	regions []uint32
	away    bool // in a process
}

// heldBy explains a delay at the memory that work of q has touched. Which part of it,
// nobody can say afterwards; each client is told of its own.
func (sh *shard) heldBy(q *qp, h delay) {
	own := held{subject: subject{client: q.client, number: q.num, index: uint16(sh.first)}}
	own.of(q.regions[:]...)
	own.of(q.sq.cq.region, q.sq.cq.records, q.rq.cq.region, q.rq.cq.records)
	far := held{}
	if p := q.conn.peer; p != nil {
		far.subject = subject{client: p.client, number: p.num, index: uint16(p.rq.done), kind: control.OfReceive}
		far.of(p.regions[:]...)
		far.of(p.rq.cq.region, p.rq.cq.records)
	}
	sh.eachKey(q, func(k *mkey) {
		if k.client == q.client {
			own.ofKey(k)
		} else if far.client == k.client {
			far.ofKey(k)
		}
	})
	if far.client == q.client {
		own.regions = append(own.regions, far.regions...)
		far = held{}
	}
	sh.sayHeld(own, h, far.known())
	sh.sayHeld(far, h, own.known())
}

// heldByCQ explains a delay at the memory of a completion queue.
func (sh *shard) heldByCQ(q *cq, h delay) {
	own := held{subject: subject{client: q.client, number: q.num, index: uint16(q.next), kind: control.OfCompletion}}
	own.of(q.region, q.records)
	sh.sayHeld(own, h, false)
}

// of adds regions that are a client's own memory.
func (m *held) of(list ...*region) {
	for _, r := range list {
		if r != nil && r.owned {
			m.regions = append(m.regions, r.id)
		}
	}
}

func (m *held) ofKey(k *mkey) {
	if k.process != nil {
		m.away = true
		return
	}
	m.of(k.region)
}

// known reports whether there is memory of a client in another process among it. That
// of the engine's own program is no matter of trust, and what holds up the thread there
// may be the program's own goroutines.
func (m *held) known() bool { return len(m.regions) > 0 || m.away }

// looksAway reports whether there is a record or an arm word among those that the shard
// looks at which lies in memory of a client in another process.
func (sh *shard) looksAway() bool {
	m := held{}
	for _, q := range sh.running {
		m.of(q.regions[:]...)
	}
	for _, q := range sh.arm.cqs {
		m.of(q.region, q.records)
	}
	return m.known()
}

// sayHeld explains a delay to one of the clients whose memory it may have been.
func (sh *shard) sayHeld(m held, h delay, others bool) {
	if !m.known() {
		return
	}
	slices.Sort(m.regions)
	var where []string
	for _, id := range slices.Compact(m.regions) {
		if len(where) == slowRegions {
			where = append(where, "others")
			break
		}
		where = append(where, fmt.Sprintf("%#x", id))
	}
	text := "of region " + strings.Join(where, ", ")
	if m.away {
		text = strings.TrimSuffix("of the client's process, or "+text, ", or of region ")
	}
	if others {
		text += ", or of the peer"
	}
	m.client.count[control.CounterStalls]++
	sh.say(m.subject, codeMemorySlow, "%smemory %s held up the engine's thread for %v: %v", []any{m.what, text, h.took.Round(time.Microsecond), h})
}

// slowRegions is how many regions an explanation names.
const slowRegions = 8

// slowKeys bounds how many WQEs are read again for their keys.
const slowKeys = 8

// eachKey calls f for the keys of what q has executed in this visit, read again from
// the ring, or those of the transfer that is under way. The client may have written any
// key there since then, of anybody's memory.
func (sh *shard) eachKey(q *qp, f func(*mkey)) {
	if j := q.job; j != nil {
		for _, l := range []*list{&j.src, &j.dst} {
			for i := range l.n {
				sh.eachMemory(l.piece[i].key, f)
			}
		}
		return
	}
	var b [wqe.MaxBlocks * wqe.BlockSize]byte
	for range slowKeys {
		if sh.first >= q.sq.done {
			return
		}
		reread(b[:wqe.BlockSize], q.sq.ring[sh.first&q.sq.mask*wqe.BlockSize:])
		h := parseHead((*[wqe.CtrlSize]byte)(b[:]))
		n := min(max(h.blocks(), 1), len(b)/wqe.BlockSize)
		for i := 1; i < n; i++ {
			reread(b[i*wqe.BlockSize:][:wqe.BlockSize], q.sq.ring[(sh.first+uint64(i))&q.sq.mask*wqe.BlockSize:])
		}
		sh.first += uint64(n)
		// Whatever lies at the place of a key and is one is taken for one.
		for at := wqe.CtrlSize; at < min(h.ds()*wqe.UnitSize, len(b)); at += wqe.UnitSize {
			sh.eachMemory(sh.keys.find(wqe.ParseData((*[wqe.UnitSize]byte)(b[at:])).LKey), f)
			sh.eachMemory(sh.keys.find(wqe.ParseRaddr((*[wqe.RaddrSize]byte)(b[at:])).RKey), f)
		}
	}
}

// reread copies a block of a ring that has been executed. The client may be writing its
// next WQE there meanwhile, and so the copy may be a mixture of both: it only decides
// which regions an explanation names. A program that has its engine inside of it would
// hear of a race from the race detector, which is therefore not told of the reads.
//
//go:norace
func reread(to, from []byte) {
	for i := range to {
		to[i] = from[i]
	}
}

// eachMemory calls f for k, or the keys that it strings together.
func (sh *shard) eachMemory(k *mkey, f func(*mkey)) {
	if k == nil {
		return
	}
	if k.window != nil && k.window.parent != nil {
		k = k.window.parent
	}
	f(k)
	for i := range k.list {
		if r := k.list[i].found; r != nil {
			f(r)
		}
	}
}
