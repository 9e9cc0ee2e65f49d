//go:build linux && (amd64 || arm64)

// Package exchange lets two posters on different engines exchange data, and checks every byte.
//
//	poster answer [flags]   connects, and does what the other one asks
//	poster ask [flags]      connects, and works: WRITE, READ, atomics, SEND, of sizes from 8 bytes on
//
// They find each other by announcements: those with the same --name belong together.
package exchange

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nicless/nicless"
)

// Run runs a command. The first argument is ask or answer.
func Run(args []string) error {
	f := flag.NewFlagSet("poster "+args[0], flag.ContinueOnError)
	socket := f.String("engine", os.Getenv("LAB_SOCKET"), "socket of the engine")
	rounds := f.Int("rounds", 3, "ask: how often everything is done; 0: until it fails")
	name := f.String("name", "poster", "what both posters are called")
	// The other one may run on an emulated processor of a busy host. A test that starts posters sees that
	// the transfer stands still long before this.
	patience := f.Duration("patience", 10*time.Minute, "how long to wait for the other one")
	// Eight tries last for 34 s, in which such an engine gets a core.
	timeout := f.Int("timeout", 20, "code of the time that one of eight tries waits for an answer: 4.096 us << code")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	p, err := open(*socket)
	if err != nil {
		return err
	}
	defer func() { _ = p.nic.Close() }()
	for i := range uint64(inboxes) {
		if err := p.receive(i); err != nil {
			return err
		}
	}
	if err := p.connect(args[0], *name, *timeout, *patience); err != nil {
		return err
	}
	fmt.Println("connected")
	began := time.Now()
	if args[0] == "answer" {
		err = p.answer()
	} else {
		err = p.requestAll(*rounds)
	}
	if err != nil {
		return fmt.Errorf("after %d requests and %v: %w", p.done, time.Since(began).Round(time.Millisecond), err)
	}
	fmt.Printf("poster: %d requests, %d bytes, all as they should be\n", p.done, p.bytes)
	return nil
}

// Parts of the memory. The other side may use the first two.
const (
	most    = 128 << 10 // bytes of one request
	shared  = 0         // WRITEs go here
	counter = most      // atomics go here
	source  = 2 * most
	back    = 3 * most // READs and results of atomics come here
	inbox   = 4 * most // messages come here, one after another
	inboxes = 4
	size    = inbox + inboxes*most
)

// A poster is one end of the connection.
type poster struct {
	nic            *nicless.Context
	qp             *nicless.QP
	mr             *nicless.MR
	sends, arrives *nicless.CQ
	theirs         nicless.RemoteMemory
	done           int // requests
	bytes          uint64
}

func open(socket string) (*poster, error) {
	nic, err := nicless.Dial(socket)
	if err != nil {
		return nil, err
	}
	p := &poster{nic: nic}
	pd, err := nic.AllocPD()
	if err != nil {
		return nil, err
	}
	p.mr, err = pd.RegisterMemory(size, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	p.sends, err = nic.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, err
	}
	p.arrives, err = nic.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, err
	}
	p.qp, err = pd.CreateQP(nicless.QPConfig{SendCQ: p.sends, RecvCQ: p.arrives, SignalAll: true})
	return p, err
}

// do posts a request and waits for its end.
func (p *poster) do(wr *nicless.SendWR) error {
	if err := p.qp.PostSend(wr); err != nil {
		return err
	}
	var done [1]nicless.Completion
	if _, err := p.sends.Wait(context.Background(), done[:]); err != nil {
		return err
	}
	p.done++
	if err := done[0].Err(); err != nil {
		return fmt.Errorf("%v: %w", wr.Op, err)
	}
	return nil
}

// receive posts the receive for an inbox.
func (p *poster) receive(i uint64) error {
	return p.qp.PostRecv(&nicless.RecvWR{ID: i, SGE: []nicless.SGE{p.mr.SGE(inbox+int(i)*most, most)}})
}

// silence is after what time a poster that waits for a message asks whether the other one is there: only
// requests find out that the peer does not answer. It writes no bytes.
const silence = time.Second

// message waits for a message, gives it to f, and makes its inbox free again.
func (p *poster) message(f func(b []byte) error) error {
	var done [1]nicless.Completion
	for {
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		_, err := p.arrives.Wait(ctx, done[:])
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err := p.do(
			&nicless.SendWR{Op: nicless.Write, RemoteAddr: p.theirs.Addr, RKey: p.theirs.RKey}); err != nil {
			return fmt.Errorf("waiting for a message: %w", err)
		}
	}
	if err := done[0].Err(); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	i := done[0].ID
	return errors.Join(f(p.mr.Bytes()[inbox+i*most:][:done[0].ByteLen]), p.receive(i))
}
