//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A delaySite says, as far as is known, which memory of one client may have delayed a shard's
// thread.
type delaySite struct {
	subject
	what      string // names the request that was being served; empty: work of a queue was being done
	regions   []uint32
	inProcess bool // some of the memory is unmapped memory of the client's process
}

// explainDelay explains a delay that was caused by memory that the execution of q's WQEs
// has touched. It is not known which part of that memory was the cause. So each of the clients
// is told of its own part.
func (sh *reporter) explainDelay(q *qp, h usage.Delay) {
	own := delaySite{subject: subject{client: q.client, number: q.num, index: uint16(sh.first)}}
	own.addRegions(q.regions[:]...)
	own.addRegions(q.sq.cq.region, q.sq.cq.records, q.rq.cq.region, q.rq.cq.records)
	far := delaySite{}
	if p := q.conn.peer; p != nil {
		far.subject = subject{client: p.client, number: p.num, index: uint16(p.rq.done), kind: control.OfReceive}
		far.addRegions(p.regions[:]...)
		far.addRegions(p.rq.cq.region, p.rq.cq.records)
	}
	sh.eachKey(q, func(k *mkey) {
		if k.client == q.client {
			own.addKey(k)
		} else if far.client == k.client {
			far.addKey(k)
		}
	})
	if far.client == q.client {
		own.regions = append(own.regions, far.regions...)
		far = delaySite{}
	}
	sh.sayDelay(own, h, far.foreign())
	sh.sayDelay(far, h, own.foreign())
}

// explainCQDelay explains a delay that the memory of a completion queue has caused.
func (sh *reporter) explainCQDelay(q *cq, h usage.Delay) {
	own := delaySite{subject: subject{client: q.client, number: q.num, index: uint16(q.next), kind: control.OfCompletion}}
	own.addRegions(q.region, q.records)
	sh.sayDelay(own, h, false)
}

// addRegions adds the regions in list that the device has made for a client in another
// process.
func (m *delaySite) addRegions(list ...*region) {
	for _, r := range list {
		if r != nil && r.owned {
			m.regions = append(m.regions, r.id)
		}
	}
}

func (m *delaySite) addKey(k *mkey) {
	if k.process != nil {
		m.inProcess = true
		return
	}
	m.addRegions(k.region)
}

// foreign reports whether some of the memory is that of a client in another process. Memory
// of the engine's own program is trusted, and delays there may come from the program's own
// goroutines.
func (m *delaySite) foreign() bool { return len(m.regions) > 0 || m.inProcess }

// pollsForeignMemory reports whether one of the records or arm words that the shard polls
// is memory of a client in another process.
func (sh *reporter) pollsForeignMemory() bool {
	m := delaySite{}
	for _, q := range sh.running {
		if m.addRegions(q.regions[:]...); m.foreign() {
			return true
		}
	}
	for _, c := range sh.arm.armers.clients {
		for _, q := range c.arms.cqs {
			if m.addRegions(q.region, q.records); m.foreign() {
				return true
			}
		}
	}
	return false
}

// sayDelay explains a delay to one of the clients whose memory may have been the cause.
// others says that memory of the peer may have been the cause as well.
func (sh *reporter) sayDelay(m delaySite, h usage.Delay, others bool) {
	if !m.foreign() {
		return
	}
	slices.Sort(m.regions)
	var where []string
	for _, id := range slices.Compact(m.regions) {
		if len(where) == namedRegions {
			where = append(where, "others")
			break
		}
		where = append(where, fmt.Sprintf("%#x", id))
	}
	text := "of region " + strings.Join(where, ", ")
	if m.inProcess {
		text = strings.TrimSuffix("of the client's process, or "+text, ", or of region ")
	}
	if others {
		text += ", or of the peer"
	}
	m.client.count[control.CounterStalls]++
	sh.say(m.subject, codes.MemorySlow, "%smemory %s held up the engine's thread for %v: %v", []any{m.what, text, h.Took.Round(time.Microsecond), h})
}

// namedRegions is how many regions an explanation names.
const namedRegions = 8

// rereadWQEs is how many WQEs are read again, at most, to find their keys.
const rereadWQEs = 8

// eachKey calls f for the keys of the unfinished transfer of q. If there is none, eachKey
// calls f for the keys of the WQEs that the device has executed for q in this visit. It reads
// these WQEs again from the ring. The client may have overwritten them since then, and may
// have put any key there, even a key of another client's memory.
func (sh *reporter) eachKey(q *qp, f func(*mkey)) {
	if j := q.job; j != nil {
		for _, l := range []*list{&j.src, &j.dst} {
			for i := range l.n {
				sh.eachMemory(l.piece[i].key, f)
			}
		}
		return
	}
	var b [wqe.MaxBlocks * wqe.BlockSize]byte
	for range rereadWQEs {
		if sh.first >= q.sq.done {
			return
		}
		reread(b[:wqe.BlockSize], q.sq.blocks.At(sh.first)[:])
		h := parseHead((*[wqe.CtrlSize]byte)(b[:]))
		n := min(max(h.blocks(), 1), len(b)/wqe.BlockSize)
		for i := 1; i < n; i++ {
			reread(b[i*wqe.BlockSize:][:wqe.BlockSize], q.sq.blocks.At(sh.first + uint64(i))[:])
		}
		sh.first += uint64(n)
		// The kind of segment is not known, so each unit is read as a data segment and as a
		// remote address segment, and f is called for every valid key that is found.
		for at := wqe.CtrlSize; at < min(h.ds()*wqe.UnitSize, len(b)); at += wqe.UnitSize {
			sh.eachMemory(sh.keys.find(wqe.ParseData((*[wqe.UnitSize]byte)(b[at:])).LKey), f)
			sh.eachMemory(sh.keys.find(wqe.ParseRaddr((*[wqe.RaddrSize]byte)(b[at:])).RKey), f)
		}
	}
}

// reread copies a block of a ring whose WQE has been executed. The client may be writing its
// next WQE there at the same time, so the copy may be a mixture of both WQEs. That is
// harmless, because the copy only decides which regions an explanation names. In a program
// with an embedded engine the race detector would report these reads, so they are hidden
// from it.
//
//go:norace
func reread(to, from []byte) {
	for i := range to {
		to[i] = from[i]
	}
}

// eachMemory calls f for k and for the keys in k's list. If k is a window, eachMemory does
// that for the window's parent instead.
func (sh *reporter) eachMemory(k *mkey, f func(*mkey)) {
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
