//go:build linux && (amd64 || arm64)

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// PairConfig configures a Pair. Signal may be zero, and Inline and BlueFlame may be false; all
// other fields must be set.
type PairConfig struct {
	Op    nicless.Op // Write, Read or Send; or FetchAdd of 1, with Size 8 and Slots 1
	Size  int        // bytes of each operation
	Slots int        // operation i moves slot i%Slots; a power of two
	Depth int        // most operations in flight
	Batch int        // most operations posted with one doorbell

	// Signal is a power of two, at most Depth. Only every Signal-th operation is signaled, and
	// its completion stands for the Signal-1 operations before it too. Zero means 1.
	Signal int

	// Inline puts the payload into the WQE. It is not possible for Read.
	Inline bool

	// BlueFlame gives A a BlueFlame register that no other queue pair uses.
	BlueFlame bool

	// Patience is how many polls in a row may find nothing before Await sleeps.
	Patience int
}

// A Pair is two connected queue pairs of this program: A posts operations, B is
// their target. One goroutine at a time may use it.
type Pair struct {
	A, B            *nicless.QP
	Sends, Receives *nicless.CQ // completions of A, and of B
	From, To        *nicless.MR // slots of the source and of the target

	cfg   PairConfig
	pd    *nicless.PD
	mask  uint64
	wrs   []nicless.SendWR // request i is wrs[i&mask]; the first Batch are there again at the end
	recvs []nicless.RecvWR // receive i is recvs[i&mask]; the first refill receives are repeated at the end
	buf   [64]nicless.Completion

	sent     uint64 // operations whose completions, or those of later operations, were polled
	received uint64 // completions of receives that were polled
	posted   uint64 // receives posted
	receives uint64 // most receives in the queue; 0 unless Op is Send
}

// refill is how many receives are posted again at a time.
const refill = 32

// receivesFor returns how many receives are posted, at most, for SENDs of that depth.
func receivesFor(depth int) int { return 4 * max(depth, refill) }

// NewPair makes and connects the queue pairs.
func NewPair(c *nicless.Context, cfg PairConfig) (*Pair, error) {
	cfg.Signal = max(cfg.Signal, 1)
	p := &Pair{cfg: cfg}
	var err error
	p.pd, err = c.AllocPD()
	if err != nil {
		return nil, err
	}
	p.From, err = p.pd.RegisterMemory(cfg.Slots*cfg.Size, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	p.To, err = p.pd.RegisterMemory(cfg.Slots*cfg.Size, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	depth := max(cfg.Depth, cfg.Batch)
	receives := receivesFor(depth)
	p.Sends, err = c.CreateCQ(nicless.CQConfig{Entries: 2 * depth})
	if err != nil {
		return nil, err
	}
	p.Receives, err = c.CreateCQ(nicless.CQConfig{Entries: 2 * receives})
	if err != nil {
		return nil, err
	}
	qc := nicless.QPConfig{
		SendCQ: p.Sends, RecvCQ: p.Receives, MaxSendWR: depth, MaxRecvWR: receives, MaxSendSGE: 1,
		MaxRecvSGE: 1,
	}
	if cfg.Inline {
		qc.MaxInline = max(cfg.Size, 1)
	} else {
		qc.MaxInline = 12 // 12 bytes inline take as much room as a data segment
	}
	posting := qc
	posting.BlueFlame = cfg.BlueFlame
	p.A, err = p.pd.CreateQP(posting)
	if err != nil {
		return nil, err
	}
	p.B, err = p.pd.CreateQP(qc)
	if err != nil {
		return nil, err
	}
	if err := nicless.Pair(p.A, p.B, nicless.Connection{}); err != nil {
		return nil, err
	}
	p.prepare(depth)
	if cfg.Op == nicless.Send {
		p.receives = uint64(receives)
	}
	return p, p.receive()
}

// prepare builds all work requests once, so that posting only reads them.
func (p *Pair) prepare(depth int) {
	window := 1 << bits.Len(uint(max(depth, p.cfg.Slots, refill)-1))
	p.mask = uint64(window - 1)
	local, remote := p.From, p.To
	if p.cfg.Op == nicless.Read {
		local, remote = p.To, p.From
	}
	p.wrs = make([]nicless.SendWR, window+p.cfg.Batch)
	for i := range p.wrs {
		slot := i % window % p.cfg.Slots
		wr := nicless.SendWR{ID: uint64(i % window), Op: p.cfg.Op, SwapAdd: 1}
		if (i+1)%p.cfg.Signal == 0 {
			wr.Flags = nicless.Signaled
		}
		if p.cfg.Inline {
			wr.Data = p.source(slot)
		} else {
			wr.SGE = []nicless.SGE{local.SGE(slot*p.cfg.Size, p.cfg.Size)}
		}
		if p.cfg.Op != nicless.Send {
			wr.RemoteAddr, wr.RKey = remote.Addr()+uint64(slot*p.cfg.Size), remote.RKey()
		}
		p.wrs[i] = wr
	}
	p.recvs = make([]nicless.RecvWR, window+refill)
	for i := range p.recvs {
		slot := i % window % p.cfg.Slots
		p.recvs[i] = nicless.RecvWR{ID: uint64(i % window),
			SGE: []nicless.SGE{p.To.SGE(slot*p.cfg.Size, p.cfg.Size)}}
	}
}

func (p *Pair) source(slot int) []byte {
	return p.From.Bytes()[slot*p.cfg.Size : (slot+1)*p.cfg.Size]
}

// Source returns the bytes that operation i moves.
func (p *Pair) Source(i uint64) []byte { return p.source(int(i & uint64(p.cfg.Slots-1))) }

// Target returns the target of operation i.
func (p *Pair) Target(i uint64) []byte {
	at := int(i&uint64(p.cfg.Slots-1)) * p.cfg.Size
	return p.To.Bytes()[at : at+p.cfg.Size]
}

// Post posts operations i to i+n-1 and rings one doorbell. n is 1 to Batch. At most Depth
// operations may be in flight.
func (p *Pair) Post(i uint64, n int) error {
	if n == 1 {
		return p.A.PostSend(&p.wrs[i&p.mask])
	}
	_, err := p.A.PostSendList(p.wrs[i&p.mask:][:n])
	return err
}

// receive posts as many receives as there is room for, refill at a time.
func (p *Pair) receive() error {
	for p.posted-p.received+refill <= p.receives {
		if _, err := p.B.PostRecvList(p.recvs[p.posted&p.mask:][:refill]); err != nil {
			return err
		}
		p.posted += refill
	}
	return nil
}

// Done returns how many operations are known to have completed. If both ends get completions, an operation
// counts when both have come.
func (p *Pair) Done() uint64 {
	if p.cfg.Op == nicless.Send {
		return min(p.sent, p.received)
	}
	return p.sent
}

// Poll polls the completion queues once and returns Done.
func (p *Pair) Poll() (done uint64, err error) {
	n, err := p.Sends.Poll(p.buf[:])
	if err := p.take(n, err, &p.sent, p.cfg.Signal); err != nil {
		return 0, err
	}
	if p.cfg.Op != nicless.Send || p.received >= p.sent {
		return p.Done(), nil
	}
	n, err = p.Receives.Poll(p.buf[:])
	if err := p.take(n, err, &p.received, 1); err != nil {
		return 0, err
	}
	return p.Done(), p.receive()
}

// take counts n completions in buf, each of which stands for the number each of operations. It
// returns the first error.
func (p *Pair) take(n int, err error, count *uint64, each int) error {
	if err != nil {
		return err
	}
	for i := range p.buf[:n] {
		if c := &p.buf[i]; c.Status != cqe.StatusSuccess {
			return c.Err()
		}
	}
	*count += uint64(n * each)
	return nil
}

// Await polls until want operations have completed. After Patience polls it sleeps until the
// device wakes it.
func (p *Pair) Await(ctx context.Context, want uint64) error {
	for vain := 0; ; vain++ {
		done, err := p.Poll()
		if err != nil || done >= want {
			return err
		}
		if vain < p.cfg.Patience {
			continue
		}
		cq, count, each := p.Sends, &p.sent, p.cfg.Signal
		if p.sent >= want {
			cq, count, each = p.Receives, &p.received, 1
		}
		n, err := cq.Wait(ctx, p.buf[:])
		if err := p.take(n, err, count, each); err != nil {
			return err
		}
		vain = 0
	}
}

// stamp changes the payload of operation i.
func (p *Pair) stamp(i uint64) {
	if p.cfg.Op == nicless.FetchAdd {
		return // the device returns another value for each operation anyway
	}
	if b := p.Source(i); len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, i)
	} else {
		b[0] = byte(i)
	}
}

// one makes operation i alone and waits for it.
func (p *Pair) one(ctx context.Context, i uint64) error {
	if err := p.Post(i, 1); err != nil {
		return err
	}
	return p.Await(ctx, i+1)
}

// Compare returns an error unless every target slot equals its source.
func (p *Pair) Compare() error { return p.CompareFirst(uint64(p.cfg.Slots)) }

// CompareFirst is Compare after n operations. n may be less than the number of slots; the
// other slots are then not compared.
func (p *Pair) CompareFirst(n uint64) error {
	if p.cfg.Op == nicless.FetchAdd {
		return p.compareSum()
	}
	used := int(min(n, uint64(p.cfg.Slots))) * p.cfg.Size
	from, to := p.From.Bytes()[:used], p.To.Bytes()[:used]
	if bytes.Equal(from, to) {
		return nil
	}
	i := 0
	for from[i] == to[i] {
		i++
	}
	return fmt.Errorf("%v: byte %d of slot %d is %#02x, the source is %#02x", p.cfg.Op, i%p.cfg.Size, i/p.cfg.Size, to[i], from[i])
}

// compareSum returns an error unless the target is the number of all atomics, and the last
// atomic returned that number less 1. The target was 0 at the start.
func (p *Pair) compareSum() error {
	sum, found := binary.NativeEndian.Uint64(p.To.Bytes()), binary.NativeEndian.Uint64(p.From.Bytes())
	if sum != p.sent || found != p.sent-1 {
		return fmt.Errorf("%v: the target is %d and the last one returned %d, after %d additions of 1", p.cfg.Op, sum, found, p.sent)
	}
	return nil
}
