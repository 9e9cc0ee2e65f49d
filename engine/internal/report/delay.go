//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A DelaySite says, as far as is known, which memory of one client may have delayed a shard's
// thread.
type DelaySite struct {
	Subject
	What      string // names the request that was being served; empty: work of a queue was being done
	regions   []uint32
	InProcess bool // some of the memory is unmapped memory of the client's process
}

// explainDelay explains a delay that was caused by memory that the execution of q's WQEs
// has touched. It is not known which part of that memory was the cause. So the delay is explained
// to each client with its own part.
func (sh *Reporter) explainDelay(q *object.QP, h usage.Delay) {
	own := DelaySite{Subject: Subject{Client: q.Client, Number: q.Num, Index: uint16(sh.First)}}
	own.AddRegions(q.Regions[:]...)
	own.AddRegions(q.SQ.CQ.Region, q.SQ.CQ.Records, q.RQ.CQ.Region, q.RQ.CQ.Records)
	far := DelaySite{}
	if p := q.Conn.Peer; p != nil {
		far.Subject = Subject{Client: p.Client, Number: p.Num, Index: uint16(p.RQ.Done),
			Kind: control.OfReceive}
		far.AddRegions(p.Regions[:]...)
		far.AddRegions(p.RQ.CQ.Region, p.RQ.CQ.Records)
	}
	sh.EachKey(q, func(k *object.Mkey) {
		if k.Client == q.Client {
			own.addKey(k)
		} else if far.Client == k.Client {
			far.addKey(k)
		}
	})
	if far.Client == q.Client {
		own.regions = append(own.regions, far.regions...)
		far = DelaySite{}
	}
	sh.ExplainDelay(own, h, far.foreign())
	sh.ExplainDelay(far, h, own.foreign())
}

// explainCQDelay explains a delay that the memory of a completion queue has caused.
func (sh *Reporter) explainCQDelay(q *object.CQ, h usage.Delay) {
	own := DelaySite{Subject: Subject{Client: q.Client, Number: q.Num, Index: uint16(q.Next),
		Kind: control.OfCompletion}}
	own.AddRegions(q.Region, q.Records)
	sh.ExplainDelay(own, h, false)
}

// AddRegions adds the regions in list that the device has made for a client in another
// process.
func (m *DelaySite) AddRegions(list ...*object.Region) {
	for _, r := range list {
		if r != nil && r.Owned {
			m.regions = append(m.regions, r.ID)
		}
	}
}

func (m *DelaySite) addKey(k *object.Mkey) {
	if k.Process != nil {
		m.InProcess = true
		return
	}
	m.AddRegions(k.Region)
}

// foreign reports whether some of the memory is that of a client in another process. Memory
// of the engine's own program is trusted, and delays there may come from the program's own
// goroutines.
func (m *DelaySite) foreign() bool { return len(m.regions) > 0 || m.InProcess }

// PollsForeignMemory reports whether one of the records or arm words that the shard polls
// is memory of a client in another process.
func (sh *Reporter) PollsForeignMemory() bool {
	m := DelaySite{}
	for _, q := range sh.Running {
		m.AddRegions(q.Regions[:]...)
		if m.foreign() {
			return true
		}
	}
	for _, c := range sh.Arm.Armers.Clients {
		for _, q := range c.Arms.CQs {
			m.AddRegions(q.Region, q.Records)
			if m.foreign() {
				return true
			}
		}
	}
	return false
}

// ExplainDelay explains a delay to one of the clients whose memory may have been the cause.
// others says that memory of the peer may have been the cause as well.
func (sh *Reporter) ExplainDelay(m DelaySite, h usage.Delay, others bool) {
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
	if m.InProcess {
		text = strings.TrimSuffix("of the client's process, or "+text, ", or of region ")
	}
	if others {
		text += ", or of the peer"
	}
	m.Client.Count[control.CounterStalls]++
	sh.ExplainSubject(m.Subject, codes.MemorySlow, "%smemory %s held up the engine's thread for %v: %v", []any{m.What, text, h.Took.Round(time.Microsecond), h})
}

const (
	// namedRegions is how many regions an explanation names.
	namedRegions = 8

	// rereadWQEs is how many WQEs are read again, at most, to find their keys.
	rereadWQEs = 8
)

// EachKey calls f for the keys of the unfinished transfer of q. If there is none, EachKey
// calls f for the keys of the WQEs that the device has executed for q in this visit. It reads
// these WQEs again from the ring. The client may have overwritten them since then, and may
// have put any key there, even a key of another client's memory.
func (sh *Reporter) EachKey(q *object.QP, f func(*object.Mkey)) {
	if j := q.Job; j != nil {
		for _, l := range []*object.List{&j.Src, &j.Dst} {
			for i := range l.N {
				eachMemory(l.Piece[i].Key, f)
			}
		}
		return
	}
	var b [wqe.MaxBlocks * wqe.BlockSize]byte
	for range rereadWQEs {
		if sh.First >= q.SQ.Done {
			return
		}
		reread(b[:wqe.BlockSize], q.SQ.Blocks.At(sh.First)[:])
		h := object.ParseHead((*[wqe.CtrlSize]byte)(b[:]))
		n := min(max(h.Blocks(), 1), len(b)/wqe.BlockSize)
		for i := 1; i < n; i++ {
			reread(b[i*wqe.BlockSize:][:wqe.BlockSize], q.SQ.Blocks.At(sh.First + uint64(i))[:])
		}
		sh.First += uint64(n)
		// The kind of segment is not known, so each unit is read as a data segment and as a
		// remote address segment, and f is called for every valid key that is found.
		for at := wqe.CtrlSize; at < min(h.DS()*wqe.UnitSize, len(b)); at += wqe.UnitSize {
			eachMemory(sh.Keys.Find(wqe.ParseData((*[wqe.UnitSize]byte)(b[at:])).LKey), f)
			eachMemory(sh.Keys.Find(wqe.ParseRaddr((*[wqe.RaddrSize]byte)(b[at:])).RKey), f)
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
func eachMemory(k *object.Mkey, f func(*object.Mkey)) {
	if k == nil {
		return
	}
	if k.Window != nil && k.Window.Parent != nil {
		k = k.Window.Parent
	}
	f(k)
	for i := range k.List {
		if r := k.List[i].Found; r != nil {
			f(r)
		}
	}
}
