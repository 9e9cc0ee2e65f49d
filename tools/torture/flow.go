//go:build linux && (amd64 || arm64)

package torture

import (
	"github.com/nicless/nicless"
)

const (
	sendDepth = 64
	// fullDepth is the most receives that a peer can use at once. It is enough for the
	// messages of one window and the acknowledgements of another.
	fullDepth = window + window/group + 12
	// scarceDepth is so few receives that the peer sometimes waits for one (RNR).
	scarceDepth = 12
)

// A flowConfig describes a flow.
type flowConfig struct {
	Menu
	transport nicless.Transport
	receives  int  // depth of the receive queue; 0: receives come from the shared queue
	list      bool // the peer reads the source through a list key
}

// flowConfigs are the flows of a connection.
var flowConfigs = []flowConfig{
	{receives: scarceDepth, list: true, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{
		nicless.Write, nicless.WriteImm, nicless.Read, nicless.Send, nicless.SendImm, nicless.FetchAdd,
		nicless.CompareSwap,
		nicless.MaskedFetchAdd, nicless.MaskedCompareSwap, nicless.Copy,
	}}},
	{Menu: Menu{Largest: 256, Window: true, Ops: []nicless.Op{nicless.Write, nicless.Write, nicless.Write, nicless.SendImm, nicless.WriteImm}}},
	{transport: nicless.UC, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{nicless.Write, nicless.WriteImm, nicless.Send, nicless.SendImm}}},
	{transport: nicless.UD, receives: fullDepth, Menu: Menu{Largest: 4096, Ops: []nicless.Op{nicless.Send, nicless.SendImm}}},
}

// A flow is one queue pair of a connection, with its memory. It makes the operations of its
// stream and checks those of its peer's stream.
type flow struct {
	c *client
	i int
	flowConfig
	mem *memory
	qp  *nicless.QP
	win *nicless.Window
	key *nicless.ListKey
	to  *nicless.Address // the peer's address, for UD

	peerInfo FlowInfo // what the peer has said about its flow
	mine     *Stream  // operations of this end
	peer     *Stream  // operations of the peer
	sends    *Ledger
	recvs    *Ledger           // nil: receives come from the shared queue
	posts    [sendDepth]posted // the sends, by their numbers modulo sendDepth

	pending  *Operation // next operation of the stream, not posted yet
	next     uint64     // number of operations of this end that were posted
	acked    uint64     // number of operations of this end that the peer has acknowledged
	checked  uint64     // number of operations of the peer that this end has checked
	ackSent  uint64     // number of operations of the peer that this end has acknowledged
	stopping bool
	unbound  int    // how often the window has still to be bound
	failed   bool   // there was an error completion
	failure  string // the first error completion
	model    [words]uint64

	scratch []byte
	spans   []span
	sges    []nicless.SGE
}

// posted is a send that has not completed.
type posted struct {
	op   Operation
	kind postedKind
	old  uint64 // atomics: the value that must have been there
}

type postedKind uint8

const (
	isData postedKind = iota
	isAck
	isOther
)

// open makes the queue pair for a new connection and posts its receives.
func (l *flow) open() (err error) {
	l.mem.renew()
	*l = flow{c: l.c, i: l.i, flowConfig: l.flowConfig, mem: l.mem, scratch: l.scratch, spans: l.spans,
		sges: l.sges}
	cfg := nicless.QPConfig{
		Type: l.transport, SendCQ: l.c.cq, MaxSendWR: sendDepth, MaxSendSGE: maxPieces, MaxRecvSGE: 2,
		MaxInline: maxInline,
	}
	if l.transport == nicless.UD {
		// if the top bit were set, the device would use the sender's qkey
		cfg.QKey = uint32(mix(l.mem.key)) >> 1
	}
	l.sends = NewLedger(sendDepth)
	if l.receives == 0 {
		cfg.SRQ = l.c.shared.srq
	} else {
		cfg.MaxRecvWR, l.recvs = l.receives, NewLedger(l.receives)
	}
	l.qp, err = l.c.pd.CreateQP(cfg)
	if err != nil {
		return err
	}
	for range l.receives {
		if err := l.postRecv(); err != nil {
			return err
		}
	}
	if l.Window {
		l.win, err = l.c.pd.AllocWindow(2)
		if err != nil {
			return err
		}
	}
	if l.list {
		l.key, err = l.c.pd.CreateListKey(3)
	}
	return err
}

// close destroys what open has created.
func (l *flow) close() error {
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

func (l *flow) describe() FlowInfo {
	d := FlowInfo{QP: l.qp.Descriptor(), Target: l.mem.target.Remote("target"),
		Source: l.mem.source.Remote("source"), Words: l.mem.words.Remote("words")}
	if l.win != nil {
		d.Window = nicless.IncRKey(l.win.RKey())
	}
	if l.key != nil {
		d.Source.Addr, d.Source.RKey = 0, l.key.RKey()
	}
	return d
}

func (l *flow) connect(peer FlowInfo, epoch int) (err error) {
	l.peerInfo = peer
	l.mine = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, l.c.spec.End, l.i), l.Menu)
	l.peer = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, 1-l.c.spec.End, l.i), l.Menu)
	if l.transport == nicless.UD {
		l.to, err = l.qp.AddressOf(peer.QP)
		if err != nil {
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
	// The pieces follow each other, so that the list has the same bytes as the source.
	const first, second = sourceSize/3 + 5, sourceSize/2 + 1
	m := l.mem.source
	return l.send(posted{kind: isOther},
		&nicless.SendWR{Op: nicless.BindList, Flags: nicless.Signaled, List: l.key.List(nicless.RemoteRead,
			m.SGE(0, first), m.SGE(first, second-first), m.SGE(second, sourceSize-second))})
}

// bind binds the memory window, so that the peer can write through it.
func (l *flow) bind() error {
	return l.send(posted{kind: isOther}, &nicless.SendWR{
		Op: nicless.BindMW, Flags: nicless.Signaled,
		Bind: l.win.Bind(l.mem.target, 0, areaSize, nicless.RemoteWrite),
	})
}

func (l *flow) postRecv() error {
	n := l.recvs.Post(true)
	return l.qp.PostRecv(&nicless.RecvWR{ID: n, SGE: recvList(l.mem.recv, n%uint64(l.receives))})
}

// receive posts a receive to the flow's own queue or to the shared one.
func (l *flow) receive(wr *nicless.RecvWR) error {
	if l.recvs == nil {
		return l.c.shared.srq.PostRecv(wr)
	}
	return l.qp.PostRecv(wr)
}

// quiet reports whether all operations of this end are done and acknowledged.
func (l *flow) quiet() bool {
	return l.stopping && l.pending == nil && l.next == l.acked && l.unbound == 0 &&
		l.sends.Outstanding() == 0 && l.checked == l.ackSent
}
