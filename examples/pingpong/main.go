//go:build linux && (amd64 || arm64)

// Pingpong sends messages back and forth between two queue pairs, by SEND and RECV,
// checks every message, and prints how long the round trips took.
//
//	go run ./examples/pingpong
//	go run ./examples/pingpong -n 1000000 -size 4096
//
// Both queue pairs belong to this process. The engine runs in this process too, on
// another thread. A round trip therefore consists of posting, the device and polling,
// each twice, but not of switches between processes. On a machine with two cores or
// more, each of the two threads gets a core. On a single core they take turns, and the
// numbers show mainly the scheduler.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"golang.org/x/sys/unix"
)

const usage = `usage:
  pingpong [-n COUNT] [-size BYTES]

  -n COUNT      round trips to measure; a tenth as many come before, unmeasured (100000)
  -size BYTES   of a message, 8 to 1048576 (8)

example:
  pingpong -n 1000000 -size 4096
`

func main() {
	flags := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	n := flags.Int("n", 100_000, "")
	size := flags.Int("size", 8, "")
	err := flags.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		refuse("%v", err)
	case flags.NArg() > 0:
		refuse("%q is not an option", flags.Arg(0))
	case *n < 1:
		refuse("-n %d; 1 is the least", *n)
	case *size < 8 || *size > 1<<20:
		refuse("-size %d; 8 to 1048576 are possible", *size)
	}
	if err := run(*n, *size); err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: error: %v\n", err)
		os.Exit(1)
	}
}

func refuse(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pingpong: error: "+format+"\npingpong: hint: pingpong -h lists the options\n", args...)
	os.Exit(2)
}

func run(n, size int) error {
	cfg, where, err := pin()
	if err != nil {
		return err
	}
	nic, err := nicless.Open(cfg)
	if err != nil {
		return err
	}
	defer nic.Close()
	pd, err := nic.AllocPD()
	if err != nil {
		return err
	}
	left, err := newPlayer(nic, pd, size)
	if err != nil {
		return err
	}
	right, err := newPlayer(nic, pd, size)
	if err != nil {
		return err
	}
	if err := nicless.Pair(left.qp, right.qp, nicless.Connection{}); err != nil {
		return err
	}

	trips := make([]time.Duration, 0, min(n, 1<<24))
	for i := -n / 10; i < n; i++ {
		left.fill(uint64(i))
		right.fill(^uint64(i))
		start := time.Now()
		err := left.serve(right)
		if err == nil {
			err = right.serve(left)
		}
		took := time.Since(start)
		if err == nil {
			err = errors.Join(right.check(left), left.check(right))
		}
		if err != nil {
			return fmt.Errorf("round trip %d: %w", i, err)
		}
		if i >= 0 {
			trips = append(trips, took)
		}
	}

	slices.Sort(trips)
	host, _ := os.Hostname()
	fmt.Printf("%s, %s/%s, %d cores; %s\n", host, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), where)
	fmt.Printf("%d round trips of 2 messages of %d bytes, every message checked\n", n, size)
	for _, p := range []float64{50, 90, 99, 99.9, 99.99} {
		fmt.Printf("%7g %%  %10v\n", p, trips[min(int(p/100*float64(n)), n-1)])
	}
	fmt.Printf("    least  %9v\n     most  %9v\n", trips[0], trips[n-1])
	return nil
}

// pin puts this goroutine's thread on one core, and returns a configuration that puts the
// engine's thread on another, if there are two cores or more.
func pin() (cfg nicless.Config, where string, err error) {
	runtime.LockOSThread()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return cfg, "", fmt.Errorf("cores: %w", err)
	}
	if allowed.Count() < 2 {
		return cfg, "one core for both threads", nil
	}
	var cores []int
	for cpu := 0; len(cores) < 2; cpu++ {
		if allowed.IsSet(cpu) {
			cores = append(cores, cpu)
		}
	}
	var mine unix.CPUSet
	mine.Set(cores[0])
	if err := unix.SchedSetaffinity(0, &mine); err != nil {
		return cfg, "", fmt.Errorf("core %d: %w", cores[0], err)
	}
	cfg = nicless.Config{CPUs: cores[1:], Spin: true}
	return cfg, fmt.Sprintf("posting and polling on core %d, engine on core %d", cores[0], cores[1]), nil
}

// A player is one end: a queue pair, a completion queue, and memory. The first half of the
// memory is for sending, the second half for receiving.
type player struct {
	qp   *nicless.QP
	cq   *nicless.CQ
	mr   *nicless.MR
	size int

	send nicless.SendWR
	recv nicless.RecvWR
	done [1]nicless.Completion
}

func newPlayer(nic *nicless.Context, pd *nicless.PD, size int) (p *player, err error) {
	p = &player{size: size}
	p.cq, err = nic.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, err
	}
	p.qp, err = pd.CreateQP(nicless.QPConfig{SendCQ: p.cq})
	if err != nil {
		return nil, err
	}
	p.mr, err = pd.RegisterMemory(2*size, nicless.LocalWrite)
	if err != nil {
		return nil, err
	}
	p.send = nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled, SGE: []nicless.SGE{p.mr.SGE(0, size)}}
	p.recv = nicless.RecvWR{SGE: []nicless.SGE{p.mr.SGE(size, size)}}
	return p, nil
}

// fill writes a message into the memory for sending. Each number gives another message.
func (p *player) fill(number uint64) {
	b := p.sent()
	binary.LittleEndian.PutUint64(b, number)
	for k := 8; k < len(b); k++ {
		b[k] = byte(uint64(k) + number)
	}
}

// serve sends the message to the other player, and returns when the message has arrived.
func (p *player) serve(to *player) error {
	if err := to.qp.PostRecv(&to.recv); err != nil {
		return err
	}
	if err := p.qp.PostSend(&p.send); err != nil {
		return err
	}
	if err := to.next(cqe.WCRecv); err != nil {
		return err
	}
	if n := to.done[0].ByteLen; int(n) != p.size {
		return fmt.Errorf("%d bytes received, %d sent", n, p.size)
	}
	return p.next(cqe.WCSend)
}

// check compares the received message with the message that the other player sent.
func (p *player) check(from *player) error {
	if got, want := p.received(), from.sent(); !bytes.Equal(got, want) {
		return fmt.Errorf("received %x and so on, sent %x", got[:8], want[:8])
	}
	return nil
}

func (p *player) sent() []byte     { return p.mr.Bytes()[:p.size] }
func (p *player) received() []byte { return p.mr.Bytes()[p.size:] }

// next waits for one completion. It spins for a few microseconds before it sleeps. That is
// enough if the engine has a core for itself.
func (p *player) next(want cqe.WCOpcode) error {
	if _, err := p.cq.Wait(context.Background(), p.done[:]); err != nil {
		return err
	}
	if err := p.done[0].Err(); err != nil {
		return err
	}
	if got := p.done[0].Opcode; got != want {
		return fmt.Errorf("%v completed; %v should have", got, want)
	}
	return nil
}
