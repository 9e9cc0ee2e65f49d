//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

type posterConfig struct {
	file      filePart
	node      int
	nap       time.Duration
	n, rounds int
	timeout   time.Duration
	garbage   bool
}

const mostRounds = 1 << 24

// A poster has a queue pair and memory, and nothing of the engine but these bytes.
type poster struct {
	cfg    posterConfig
	ctx    context.Context
	board  board
	engine uint64 // the engine's id
	raw    nicless.Raw
	mem    *accel.Buffer
	far    nicless.MemoryLayout // the peer's memory; only for work requests
	size   int                  // bytes of a long write
	peer   int
	next   uint64 // count of the next WQE. Each has one completion
	polled uint32 // count of the next CQE
}

// post runs a poster.
func post(ctx context.Context, cfg posterConfig) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout)
	defer cancel()
	mem, err := mapPool(cfg.file)
	if err != nil {
		return err
	}
	defer mem.Unmap()
	b, err := boardOf(mem)
	if err != nil {
		return err
	}
	id, d, err := waitForEngine(ctx, b, cfg.nap)
	if err != nil {
		return err
	}
	p, err := newPoster(cfg, mem[boardSize:], &d)
	if err != nil {
		return fmt.Errorf("the description of engine %016x: %w", id, err)
	}
	p.ctx, p.board, p.engine = ctx, b, id
	if cfg.garbage {
		return p.vandalise()
	}
	if err := p.drain(); err != nil {
		return err
	}
	return p.play()
}

// newPoster finds a poster's part of the memory. The description may be wrong in any way.
func newPoster(cfg posterConfig, mem []byte, d *description) (*poster, error) {
	if cfg.node > len(d.Nodes) {
		return nil, fmt.Errorf("there is no node %d, there are %d", cfg.node, len(d.Nodes))
	}
	n := &d.Nodes[cfg.node-1]
	if n.Peer < 1 || n.Peer > len(d.Nodes) {
		return nil, fmt.Errorf("node %d has peer %d; 1 to %d are possible", cfg.node, n.Peer, len(d.Nodes))
	}
	raw, err := n.QP.In(mem)
	if err != nil {
		return nil, err
	}
	m, err := n.Memory.In(mem)
	if err != nil {
		return nil, err
	}
	p := &poster{cfg: cfg, raw: raw, mem: accel.NewBuffer(m), far: d.Nodes[n.Peer-1].Memory, peer: n.Peer}
	p.size = (p.mem.Len() - wordsSize) / areas &^ 7
	if p.size < 8 || p.far.Size != n.Memory.Size {
		return nil, fmt.Errorf("nodes %d and %d have memory of %d and %d bytes", cfg.node, n.Peer, n.Memory.Size, p.far.Size)
	}
	p.next = uint64(binary.BigEndian.Uint32(raw.Record[4:]))
	p.polled = binary.BigEndian.Uint32(raw.SendCQ.Record)
	return p, nil
}

// counts is how many counts there are: a record and a consumer index have 24 bits.
const counts = 1 << 24

// drain polls completions that an earlier poster of this node has not polled.
func (p *poster) drain() error {
	for uint32(p.next%counts) != p.polled%counts {
		if _, err := p.poll(); err != nil {
			return fmt.Errorf("work of an earlier poster of node %d: %w", p.cfg.node, err)
		}
	}
	return nil
}

// do executes one request: n bytes at offset local of this node's memory, and at offset
// remote of the peer's.
func (p *poster) do(op wqe.Opcode, local, remote, n int) error {
	return p.await(op, n, func(w accel.WQEParams) error {
		w.RAddr += uint64(remote)
		w.LAddr += uint64(local)
		return accel.SendWQE(w)
	})
}

// add adds to the counter of the pair, and returns its old value. The counter is in the memory
// of the node with the odd number. That node, too, lets the engine add: its own instructions need
// not be atomic with those of another machine.
func (p *poster) add(delta uint64) (old uint64, err error) {
	err = p.await(wqe.OpAtomicFA, 8, func(w accel.WQEParams) error {
		if p.odd() {
			w.RAddr, w.RKey = w.LAddr, w.LKey
		}
		w.RAddr += counterAt
		w.LAddr += oldAt
		return accel.AtomicWQE(w, delta, 0)
	})
	return p.mem.Load(oldAt), err
}

// odd reports whether this node is the first of its pair, which decides and has the counter.
func (p *poster) odd() bool { return p.cfg.node%2 == 1 }

// await posts one WQE, which write writes, and waits for its completion.
func (p *poster) await(op wqe.Opcode, n int, write func(accel.WQEParams) error) error {
	w := p.raw.SendParams()
	w.WRID, w.OpType, w.Signaled, w.Length = p.next, op, true, uint32(n)
	w.LAddr, w.LKey, w.RAddr, w.RKey = p.mem.Ref(0).Addr, p.mem.Ref(0).Key, p.far.Addr, p.far.Key
	if err := write(w); err != nil {
		return err
	}
	accel.RingDB(p.raw.Register, p.raw.Send[int(p.next%uint64(w.WQECnt))*wqe.BlockSize:][:wqe.BlockSize])
	p.next++
	if _, err := p.poll(); err != nil {
		return fmt.Errorf("%v: %w", op, err)
	}
	return nil
}

// errFailed reports a completion with an error.
type errFailed struct{ cqe.WC }

func (e errFailed) Error() string { return fmt.Sprintf("the completion says %v", e.Status) }

// poll waits for a completion. It returns how many bytes a READ or an atomic has brought.
func (p *poster) poll() (bytes int32, err error) {
	err = p.until("a completion", func() bool {
		bytes, err = accel.PollCQE(p.raw.SendCQ.PollParams(p.polled))
		return err != nil || bytes != accel.CQENone
	}, &err)
	if err != nil {
		return 0, err
	}
	at := int(p.polled) % (len(p.raw.SendCQ.Ring) / p.raw.SendCQ.EntrySize)
	p.polled++
	if bytes == accel.CQEFailed {
		end := (at + 1) * p.raw.SendCQ.EntrySize
		return 0, errFailed{cqe.ParseWC((*[cqe.Size]byte)(p.raw.SendCQ.Ring[end-cqe.Size:]))}
	}
	return bytes, nil
}

// until waits for done, with naps: a machine cannot wake another one. Its error is also
// that which done has stored in failed.
func (p *poster) until(what string, done func() bool, failed *error) error {
	for polls := 1; !done(); polls++ {
		if p.cfg.nap > 0 {
			nap(p.cfg.nap)
		} else {
			runtime.Gosched()
			if polls%1024 != 0 {
				continue
			}
		}
		switch {
		case !p.board.is(p.engine):
			return errors.New("the engine has ended, or another one has begun")
		case p.ctx.Err() != nil:
			return fmt.Errorf("node %d waited for %s: %w", p.cfg.node, what, p.ctx.Err())
		}
	}
	if failed != nil {
		return *failed
	}
	return nil
}
