// Lastbyte shows a mistake that many programs have, and that most hardware hides: to poll the last byte of a
// payload. The bytes of one RDMA WRITE have no order before its completion, so the last one may be there
// first.
//
//	go run ./examples/lastbyte
//
// The device obeys the rules in order.yaml. For one seed after the other, a page is written twice. One
// receiver polls the last 8 bytes of the page in memory; it is wrong within 100 seeds, and the device reports
// which bytes it has relied on. The other receiver polls the completion of a SEND behind the WRITE, and is
// right with each seed. The program fails if it is otherwise.
//
// The same rules find the mistake in other programs:
//
//	nicless run --faults examples/lastbyte/order.yaml -- PROGRAM
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/fault/rulefile"
)

//go:embed order.yaml
var rules []byte

const (
	usage = "usage: lastbyte\n"
	page  = 4096
	seeds = 100
)

func main() {
	switch {
	case len(os.Args) == 1:
	case len(os.Args) == 2 && (os.Args[1] == "-h" || os.Args[1] == "--help"):
		fmt.Print(usage)
		return
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "lastbyte: error: %v\n", err)
		os.Exit(1)
	}
}

// A pair is two connected queue pairs, memory of both ends, and what the device reports.
type pair struct {
	nic          *nicless.Context
	from, to     *nicless.MR
	send, recv   *nicless.QP
	sends, recvs *nicless.CQ

	mu      sync.Mutex
	reports []string
}

func run() error {
	r, err := rulefile.Parse("order.yaml", rules)
	if err != nil {
		return err
	}
	p, err := newPair()
	if err != nil {
		return err
	}
	defer p.nic.Close()
	wrong := 0
	for seed := range seeds {
		r.Seed = fault.Number(seed)
		if _, err := p.nic.Faults(*r); err != nil { // in place of those of the last seed
			return err
		}
		early, err := p.pollMemory()
		if err != nil {
			return err
		}
		if early > 0 {
			wrong++
			if wrong == 1 {
				fmt.Printf("seed %d: the last bytes were there, and %d bytes before them were not\n", seed, early)
				fmt.Printf("  %s\n", p.report())
			}
		}
		if err := p.pollCompletion(); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	if wrong == 0 {
		return fmt.Errorf("the receiver that polls memory was right with %d seeds", seeds)
	}
	fmt.Printf("polls memory:       wrong with some of %d seeds\n", seeds)
	fmt.Printf("polls a completion: right with all of them\n")
	return nil
}

func newPair() (*pair, error) {
	p := &pair{}
	nic, err := nicless.Open(nicless.Config{})
	if err != nil {
		return nil, err
	}
	p.nic = nic
	p.nic.OnExplanation(func(x nicless.Explanation) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reports = append(p.reports, x.Text)
	})
	pd, err := p.nic.AllocPD()
	if err != nil {
		return nil, err
	}
	for _, m := range []**nicless.MR{&p.from, &p.to} {
		*m, err = pd.RegisterMemory(page, nicless.FullAccess)
		if err != nil {
			return nil, err
		}
	}
	for _, c := range []**nicless.CQ{&p.sends, &p.recvs} {
		*c, err = p.nic.CreateCQ(nicless.CQConfig{})
		if err != nil {
			return nil, err
		}
	}
	for _, q := range []**nicless.QP{&p.send, &p.recv} {
		*q, err = pd.CreateQP(nicless.QPConfig{SendCQ: p.sends, RecvCQ: p.recvs})
		if err != nil {
			return nil, err
		}
	}
	for i := range p.from.Bytes() {
		p.from.Bytes()[i] = byte(i%251 + 1)
	}
	return p, nicless.Pair(p.send, p.recv, nicless.Connection{})
}

// write posts the WRITE of the page.
func (p *pair) write(flags nicless.Flags) error {
	clear(p.to.Bytes())
	return p.send.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: flags,
		SGE: []nicless.SGE{p.from.SGE(0, page)}, RemoteAddr: p.to.Addr(), RKey: p.to.RKey()})
}

// pollMemory is the mistake. It returns how many bytes were not there when the last ones were.
func (p *pair) pollMemory() (missing int, err error) {
	p.mu.Lock()
	p.reports = nil
	p.mu.Unlock()
	if err := p.write(nicless.Signaled); err != nil {
		return 0, err
	}
	for p.to.Load64(page-8) == 0 {
		runtime.Gosched()
	}
	missing = bytes.Count(p.to.Bytes(), []byte{0}) // the payload has no zeros
	return missing, wait(p.sends)
}

// pollCompletion is right: the SEND's completion says that all WRITEs before it are visible.
func (p *pair) pollCompletion() error {
	if err := p.recv.PostRecv(&nicless.RecvWR{}); err != nil {
		return err
	}
	if err := p.write(0); err != nil {
		return err
	}
	if err := p.send.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled}); err != nil {
		return err
	}
	if err := wait(p.recvs); err != nil {
		return err
	}
	if !bytes.Equal(p.to.Bytes(), p.from.Bytes()) {
		return fmt.Errorf("bytes are missing after the completion")
	}
	return wait(p.sends)
}

// wait waits for one completion.
func wait(cq *nicless.CQ) error {
	var done [1]nicless.Completion
	if _, err := cq.Wait(context.Background(), done[:]); err != nil {
		return err
	}
	return done[0].Err()
}

// report returns the report of the device that the last bytes were early.
func (p *pair) report() string {
	for {
		p.mu.Lock()
		for _, text := range p.reports {
			if strings.Contains(text, "..4095 of RDMA_WRITE") {
				p.mu.Unlock()
				return text
			}
		}
		p.mu.Unlock()
		runtime.Gosched()
	}
}
