//go:build linux && (amd64 || arm64)

package niclesstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/niclesstest"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A stand-in for the *testing.T of a test: it prints the first line of each failure.
type example struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (t *example) Helper()             {}
func (t *example) Logf(string, ...any) {}
func (t *example) Failed() bool        { return t.failed }
func (t *example) Cleanup(f func())    { t.cleanups = append(t.cleanups, f) }

func (t *example) Errorf(format string, args ...any) {
	t.failed = true
	var first string
	_, _ = fmt.Sscanf(fmt.Sprintf(format, args...), "niclesstest: %s", &first)
	fmt.Printf("the test fails: %s ...\n", first)
}

func (t *example) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// A WRITE that goes beyond the memory of the peer fails, with a syndrome for programs and a sentence for
// people.
func Example() {
	t := new(example) // in a test, the *testing.T
	defer t.end()

	d := niclesstest.New(t)
	d.Expect("key-range")
	a, b := d.Pair(niclesstest.PairConfig{Memory: 4096})
	wr := a.Write(8)
	wr.RemoteAddr = b.MR.Addr() + 4092
	c := a.Do(wr)
	var e *nicless.FaultError
	fmt.Println(errors.Is(c.Err(), cqe.RemoteAccess), errors.As(c.Err(), &e), e.Code)
	// Output: true true key-range
}

// An object that is left fails the test.
func ExampleNew() {
	t := new(example)
	d := niclesstest.New(t)
	_, _ = d.Client().AllocPD() // and no Close
	t.end()
	// Output: the test fails: objects ...
}

// The clock of the device is held: a send to a peer without a receive fails after all its retries, which take
// 2.9 seconds of that clock.
func ExampleDevice_Advance() {
	t := new(example)
	defer t.end()

	d := niclesstest.NewWith(t, niclesstest.Config{Clock: niclesstest.Held})
	d.Expect("receive-none")
	a, _ := d.Pair(niclesstest.PairConfig{Connection: nicless.Connection{RNRRetry: 6, MinRNRTimer: 31}})
	a.Post(a.Send(8))
	d.Advance(3 * time.Second)
	fmt.Println(a.Next().Status)
	// Output: RNR_RETRY_EXC_ERR
}

// The third WRITE fails as if the peer could not complete it, which no program can cause.
func ExampleDevice_Fault() {
	t := new(example)
	defer t.end()

	d := niclesstest.New(t)
	a, _ := d.Pair(niclesstest.PairConfig{})
	d.Fault(fault.Rules{Rules: []fault.Rule{{
		Match:    fault.Match{Opcode: fault.Only(wqe.OpRDMAWrite), Nth: 3},
		Complete: &fault.Complete{Syndrome: fault.Syndrome(cqe.RemoteOperation)},
	}}})
	for range 3 {
		fmt.Println(a.Do(a.Write(8)).Status)
	}
	// Output:
	// SUCCESS
	// SUCCESS
	// REM_OP_ERR
}

// The trace has each event of the device. This test makes sure that a list of ten is posted with one
// doorbell.
func ExampleDevice_Trace() {
	t := new(example)
	defer t.end()

	d := niclesstest.New(t)
	a, _ := d.Pair(niclesstest.PairConfig{})
	list := make([]nicless.SendWR, 10)
	for i := range list {
		list[i] = *a.Write(8)
		list[i].Flags = 0
	}
	list[9].Flags = nicless.Signaled
	_, _ = a.QP.PostSendList(list)
	a.Next()
	mine := d.Trace().Of(a.QP)
	fmt.Println(mine.Kinds(trace.KindDoorbell).Len(), mine.Kinds(trace.KindCQE).Len())
	// Output: 1 1
}

// beat is a program under test: it sends a heartbeat each second, until one fails.
func beat(ctx context.Context, q *nicless.QP, cq *nicless.CQ) (sent int, err error) {
	for tick := time.Tick(time.Second); ; sent++ {
		select {
		case <-tick:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
		if err := q.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled}); err != nil {
			return sent, err
		}
		var done [1]nicless.Completion
		if _, err := cq.Wait(ctx, done[:]); err != nil {
			return sent, err
		}
		if err := done[0].Err(); err != nil {
			return sent, err
		}
	}
}
