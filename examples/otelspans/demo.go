package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// operations is how many operations work posts.
const operations = 3

// demonstrate exports the operations of work on an engine that it starts.
func demonstrate(ctx context.Context, to sdk.SpanExporter) error {
	dir, err := os.MkdirTemp("", "otelspans-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	socket := filepath.Join(dir, "engine.sock")
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{}, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	err = watch(ctx, socket, operations, to, func() error { return work(ctx, socket) })
	stop()
	return errors.Join(err, <-ended)
}

// work is a client of the engine that posts a WRITE, an atomic, and a WRITE that fails: its rkey is wrong.
func work(ctx context.Context, socket string) error {
	c, err := nicless.Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	pd, err := c.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	if err != nil {
		return err
	}
	cq, err := c.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return err
	}
	a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	if err != nil {
		return err
	}
	b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	if err != nil {
		return err
	}
	if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
		return err
	}
	done := make([]nicless.Completion, 1)
	for i, wr := range [operations]nicless.SendWR{
		{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, 64)}, RKey: mr.RKey()},
		{Op: nicless.FetchAdd, SGE: []nicless.SGE{mr.SGE(0, 8)}, RKey: mr.RKey(), SwapAdd: 1},
		{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, 64)}, RKey: mr.RKey() + 1},
	} {
		wr.ID, wr.Flags, wr.RemoteAddr = uint64(i), nicless.Signaled, mr.Addr()+2048
		if err := a.PostSend(&wr); err != nil {
			return err
		}
		if _, err := cq.Wait(ctx, done); err != nil {
			return err
		}
		if failed := done[0].Err() != nil; failed != (i == operations-1) {
			return fmt.Errorf("operation %d: %v; only the last one is wrong", i, done[0].Err())
		}
	}
	return nil
}
