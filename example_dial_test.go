package nicless_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
)

// An end is a program with a queue pair and memory.
type end struct {
	*nicless.Context
	mr *nicless.MR
	cq *nicless.CQ
	qp *nicless.QP
}

func newEnd(ctx context.Context, engine string) end {
	e := end{Context: must(nicless.DialContext(ctx, engine))}
	pd := must(e.AllocPD())
	e.mr = must(pd.RegisterMemory(4096, nicless.FullAccess))
	e.cq = must(e.CreateCQ(nicless.CQConfig{}))
	e.qp = must(pd.CreateQP(nicless.QPConfig{SendCQ: e.cq}))
	return e
}

// receive listens as "db", takes one dialler, and returns the bytes that it has written into the mailbox.
func (e end) receive(ctx context.Context) string {
	l := must(e.ListenName("db", nicless.ListenConfig{}))
	defer l.Close()
	// A WRITE with an immediate consumes a receive. Its bytes go where the dialler says.
	if err := e.qp.PostRecv(&nicless.RecvWR{}); err != nil {
		panic(err)
	}
	call := must(l.Accept(ctx))
	if err := call.Accept(ctx, e.qp, nicless.Connection{}, e.mr.Remote("mailbox")); err != nil {
		panic(err)
	}
	received := make([]nicless.Completion, 1)
	must(e.cq.Wait(ctx, received))
	return string(e.mr.Bytes()[:received[0].ByteLen])
}

// send dials "db", and writes into the mailbox of the listener.
func (e end) send(ctx context.Context) {
	if err := e.WaitName(ctx, "db"); err != nil { // the listener may come later
		panic(err)
	}
	peer := must(e.DialName(ctx, "db", e.qp, nicless.Connection{}, e.mr.Remote("mailbox")))
	mailbox := must(peer.Find("mailbox"))
	fmt.Println("the mailbox has", mailbox.Length, "bytes")
	copy(e.mr.Bytes(), "hello")
	err := e.qp.PostSend(&nicless.SendWR{
		Op: nicless.WriteImm, Flags: nicless.Signaled, SGE: []nicless.SGE{e.mr.SGE(0, 5)},
		RemoteAddr: mailbox.Addr, RKey: mailbox.RKey,
	})
	if err != nil {
		panic(err)
	}
	wait(e.cq)
}

// A program listens under a name, and another one dials it. Both are clients of one engine here; where a pool
// or UCX leads from the engine of the one to that of the other, the same calls connect them.
func ExampleContext_DialName() {
	dir := must(os.MkdirTemp("", "nicless"))
	defer os.RemoveAll(dir)
	engine := filepath.Join(dir, "engine")
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nicless.Serve(ctx, engine, 0o600, nicless.Config{}, func() { close(ready) }) }()
	<-ready

	listener, dialler := newEnd(ctx, engine), newEnd(ctx, engine)
	received := make(chan string)
	go func() { received <- listener.receive(ctx) }()
	dialler.send(ctx)
	fmt.Println("received:", <-received)

	_ = dialler.Close()
	_ = listener.Close()
	stop()
	fmt.Println(<-ended)
	// Output:
	// the mailbox has 4096 bytes
	// received: hello
	// <nil>
}
