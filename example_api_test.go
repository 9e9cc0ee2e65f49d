package nicless_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// must returns v. It ends the example if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// two makes a Context with an embedded engine, memory, a completion queue, and two queue
// pairs that are connected with each other.
func two() (c *nicless.Context, mr *nicless.MR, cq *nicless.CQ, a, b *nicless.QP) {
	c = must(nicless.Open(nicless.Config{}))
	pd := must(c.AllocPD())
	mr = must(pd.RegisterMemory(4096, nicless.FullAccess))
	cq = must(c.CreateCQ(nicless.CQConfig{}))
	a = must(pd.CreateQP(nicless.QPConfig{SendCQ: cq}))
	b = must(pd.CreateQP(nicless.QPConfig{SendCQ: cq}))
	if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
		panic(err)
	}
	return c, mr, cq, a, b
}

// wait returns the next completion.
func wait(cq *nicless.CQ) nicless.Completion {
	done := make([]nicless.Completion, 1)
	must(cq.Wait(context.Background(), done))
	return done[0]
}

// An engine serves other processes. In this example the client is in the same process.
func ExampleServe() {
	dir := must(os.MkdirTemp("", "nicless"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "engine")
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nicless.Serve(ctx, path, 0o600, nicless.Config{}, func() { close(ready) }) }()
	<-ready

	c := must(nicless.DialContext(ctx, path))
	status := must(c.Status())
	fmt.Println(status.State)

	stop()
	fmt.Println(<-ended)
	<-c.Done()
	_, err := c.AllocPD()
	fmt.Println(errors.Is(err, nicless.ErrDeviceGone))
	_ = c.Close()
	// Output:
	// running
	// <nil>
	// true
}

// A control call can be abandoned if it takes too long.
func ExampleCall() {
	c := must(nicless.Open(nicless.Config{}))
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	pd, err := nicless.Call(ctx, c.AllocPD)
	fmt.Println(err)
	cancel()
	_, err = nicless.Call(ctx, func() (*nicless.MR, error) { return pd.RegisterMemory(4096, nicless.FullAccess) })
	fmt.Println(err)
	// Output:
	// <nil>
	// nicless: abandoned: context canceled
}

// A message goes into the memory of a receive that the peer has posted.
func ExampleQP_PostRecv() {
	c, mr, cq, a, b := two()
	defer c.Close()
	_ = b.PostRecv(&nicless.RecvWR{ID: 10, SGE: []nicless.SGE{mr.SGE(0, 100)}})
	_ = a.PostSend(&nicless.SendWR{Op: nicless.SendImm, Data: []byte("hello"), Imm: 7})
	got := wait(cq)
	fmt.Printf("%v id %d: %d bytes, %q, immediate %d\n", got.Opcode, got.ID, got.ByteLen, mr.Bytes()[:got.ByteLen], got.Imm)
	// Output: RECV id 10: 5 bytes, "hello", immediate 7
}

// When a work request fails, its completion contains the syndrome of the hardware, and
// the explanation says in words why it failed.
func ExampleContext_OnExplanation() {
	c, mr, cq, a, _ := two()
	defer c.Close()
	explained := make(chan nicless.Explanation, 1)
	c.OnExplanation(func(x nicless.Explanation) { explained <- x })
	_ = a.PostSend(&nicless.SendWR{Op: nicless.Write, Data: []byte("hello"), RemoteAddr: mr.Addr() + 4093, RKey: mr.RKey()})
	done := wait(cq)
	err := done.Err()
	fmt.Println(errors.Is(err, cqe.RemoteAccess))
	fmt.Println((<-explained).Code)
	// Output:
	// true
	// key-range
}

// Programs and the device can change the same word, because both use atomic instructions.
func ExampleMR_Add64() {
	c, mr, cq, a, _ := two()
	defer c.Close()
	mr.Store64(0, 40)
	fmt.Println(mr.Add64(0, 1))
	_ = a.PostSend(&nicless.SendWR{Op: nicless.FetchAdd, Flags: nicless.Signaled, SwapAdd: 1,
		SGE: []nicless.SGE{mr.SGE(8, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	done := wait(cq)
	fmt.Println(done.Err(), "was", mr.Load64(8), "is", mr.Load64(0))
	// Output:
	// 41
	// <nil> was 41 is 42
}

// A datagram can go to any UD queue pair. The request contains the address.
func ExampleQP_AddressOf() {
	c := must(nicless.Open(nicless.Config{}))
	defer c.Close()
	pd := must(c.AllocPD())
	mr := must(pd.RegisterMemory(4096, nicless.FullAccess))
	cq := must(c.CreateCQ(nicless.CQConfig{}))
	a := must(pd.CreateQP(nicless.QPConfig{Type: nicless.UD, SendCQ: cq}))
	b := must(pd.CreateQP(nicless.QPConfig{Type: nicless.UD, SendCQ: cq, QKey: 5}))
	_, _ = a.Activate(), b.Activate()
	_ = b.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{mr.SGE(0, 4096)}})
	to := must(a.AddressOf(b.Descriptor()))
	_ = a.PostSend(&nicless.SendWR{Op: nicless.Send, Data: []byte("hello"), To: to})
	got := wait(cq)
	fmt.Printf("%q, from its sender: %v\n", mr.Bytes()[nicless.GRHSize:got.ByteLen], got.SrcQP == a.QPN())
	// Output: "hello", from its sender: true
}
