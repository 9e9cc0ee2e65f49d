package torture

import (
	"github.com/nicless/nicless"
)

const (
	sendDepth = 64
	// fullDepth is as many receives as a peer can have use for at once:
	// messages of a window and acknowledgements of another.
	fullDepth = window + window/group + 12
	// scarceDepth makes it wait for receives now and then.
	scarceDepth = 12
)

// A course is what a lane is like.
type course struct {
	Menu
	transport nicless.Transport
	receives  int  // 0: from the shared queue
	list      bool // the source is read through a list key
}

// courses are the lanes of a connection.
var courses = []course{
	{receives: scarceDepth, list: true, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{
		nicless.Write, nicless.WriteImm, nicless.Read, nicless.Send, nicless.SendImm, nicless.FetchAdd, nicless.CompareSwap,
		nicless.MaskedFetchAdd, nicless.MaskedCompareSwap, nicless.Copy,
	}}},
	{Menu: Menu{Largest: 256, Window: true, Ops: []nicless.Op{nicless.Write, nicless.Write, nicless.Write, nicless.SendImm, nicless.WriteImm}}},
	{transport: nicless.UC, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{nicless.Write, nicless.WriteImm, nicless.Send, nicless.SendImm}}},
	{transport: nicless.UD, receives: fullDepth, Menu: Menu{Largest: 4096, Ops: []nicless.Op{nicless.Send, nicless.SendImm}}},
}

// A lane is one end of a connection: it carries out its stream of operations
// and checks that of its peer.
type lane struct {
	c *client
	i int
	course
	mem *memory
	qp  *nicless.QP
	win *nicless.Window
	key *nicless.ListKey
	to  *nicless.Address // UD

	far   Lane    // the peer's
	mine  *Stream // what this end does
	peer  *Stream // what the peer does
	sends *Ledger
	recvs *Ledger           // nil: shared
	posts [sendDepth]posted // by number of the send

	pending  *Operation // generated, not posted yet
	next     uint64     // operations of mine posted
	acked    uint64     // those that the peer has checked
	checked  uint64     // operations of the peer that this end has checked
	told     uint64     // those that it has acknowledged
	stopping bool
	unbound  int    // times that the window has to be opened again
	failed   bool   // an error completion has come
	failure  string // the first one
	model    [words]uint64

	scratch []byte
	spans   []span
	sges    []nicless.SGE
}

// posted is what is remembered of a send.
type posted struct {
	op   Operation
	kind postedKind
	old  uint64 // atomics: what must have been found
}

type postedKind uint8

const (
	isData postedKind = iota
	isAck
	isOther
)

// open makes the queue pair for a new connection and posts its receives.
func (l *lane) open() (err error) {
	l.mem.renew()
	*l = lane{c: l.c, i: l.i, course: l.course, mem: l.mem, scratch: l.scratch, spans: l.spans, sges: l.sges}
	cfg := nicless.QPConfig{
		Type: l.transport, SendCQ: l.c.cq, MaxSendWR: sendDepth, MaxSendSGE: maxPieces, MaxRecvSGE: 2, MaxInline: maxInline,
	}
	if l.transport == nicless.UD {
		cfg.QKey = uint32(mix(l.mem.key)) >> 1 // the top bit would mean the sender's own
	}
	l.sends = NewLedger(sendDepth)
	if l.receives == 0 {
		cfg.SRQ = l.c.shared.srq
	} else {
		cfg.MaxRecvWR, l.recvs = l.receives, NewLedger(l.receives)
	}
	if l.qp, err = l.c.pd.CreateQP(cfg); err != nil {
		return err
	}
	for range l.receives {
		if err := l.postRecv(); err != nil {
			return err
		}
	}
	if l.Window {
		if l.win, err = l.c.pd.AllocWindow(2); err != nil {
			return err
		}
	}
	if l.list {
		l.key, err = l.c.pd.CreateListKey(3)
	}
	return err
}

// close gives back what open has made.
func (l *lane) close() error {
	if err := l.qp.Close(); err != nil {
		return err
	}
	l.qp = nil
	if l.win != nil {
		if err := l.win.Close(); err != nil {
			return err
		}
	}
	if l.key != nil {
		return l.key.Close()
	}
	return nil
}

func (l *lane) describe() Lane {
	d := Lane{QP: l.qp.Descriptor(), Target: l.mem.target.Remote("target"), Source: l.mem.source.Remote("source"), Words: l.mem.words.Remote("words")}
	if l.win != nil {
		d.Window = nicless.IncRKey(l.win.RKey())
	}
	if l.key != nil {
		d.Source.Addr, d.Source.RKey = 0, l.key.RKey()
	}
	return d
}

func (l *lane) connect(peer Lane, epoch int) (err error) {
	l.far = peer
	l.mine = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, l.c.spec.End, l.i), l.Menu)
	l.peer = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, 1-l.c.spec.End, l.i), l.Menu)
	if l.transport == nicless.UD {
		if l.to, err = l.qp.AddressOf(peer.QP); err != nil {
			return err
		}
		return l.qp.Activate()
	}
	if err := l.qp.Connect(peer.QP, nicless.Connection{Retry: 2, Timeout: 8, MinRNRTimer: 1}); err != nil {
		return err
	}
	if l.win != nil {
		if err := l.bind(); err != nil {
			return err
		}
	}
	if l.key == nil {
		return nil
	}
	// Pieces that lie one behind the other, so that the source is as it was.
	const first, second = sourceSize/3 + 5, sourceSize/2 + 1
	m := l.mem.source
	return l.send(posted{kind: isOther}, &nicless.SendWR{Op: nicless.BindList, Flags: nicless.Signaled, List: l.key.List(nicless.RemoteRead,
		m.SGE(0, first), m.SGE(first, second-first), m.SGE(second, sourceSize-second))})
}

// bind opens the window.
func (l *lane) bind() error {
	return l.send(posted{kind: isOther}, &nicless.SendWR{
		Op: nicless.BindMW, Flags: nicless.Signaled, Bind: l.win.Bind(l.mem.target, 0, areaSize, nicless.RemoteWrite),
	})
}

func (l *lane) postRecv() error {
	n := l.recvs.Post(true)
	return l.qp.PostRecv(&nicless.RecvWR{ID: n, SGE: recvList(l.mem.recv, n%uint64(l.receives))})
}

// receive posts a receive to wherever this lane has them.
func (l *lane) receive(wr *nicless.RecvWR) error {
	if l.recvs == nil {
		return l.c.shared.srq.PostRecv(wr)
	}
	return l.qp.PostRecv(wr)
}

// quiet reports whether all that this end has begun is done and acknowledged.
func (l *lane) quiet() bool {
	return l.stopping && l.pending == nil && l.next == l.acked && l.unbound == 0 && l.sends.Outstanding() == 0 && l.checked == l.told
}
