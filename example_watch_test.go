//go:build linux && (amd64 || arm64)

package nicless_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/trace"
)

// An engine in this process is watched by a second client of it: a client does not see its own work.
func ExampleContext_Watch() {
	ctx, stop := context.WithCancel(context.Background())
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "engine.sock")
	ready, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- nicless.Serve(ctx, path, 0o600, nicless.Config{}, func() { close(ready) })
	}()
	<-ready
	worker, _ := nicless.Dial(path)
	watcher, _ := nicless.Dial(path)
	w, _ := watcher.Watch(nicless.WatchFilter{All: true})

	pd, _ := worker.AllocPD()
	mr, _ := pd.RegisterMemory(4096, nicless.FullAccess)
	cq, _ := worker.CreateCQ(nicless.CQConfig{})
	a, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	b, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	_ = nicless.Pair(a, b, nicless.Connection{})
	_ = a.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
		SGE: []nicless.SGE{mr.SGE(0, 5)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()})

	var e trace.Event
	for e.Kind != trace.KindExecute && w.Next(ctx, &e) == nil {
		switch e.Kind {
		case trace.KindDoorbell, trace.KindFetch, trace.KindCQE, trace.KindExecute:
			fmt.Println(e.Kind, e.Index, e.Count)
		}
	}
	_, _ = watcher.Close(), worker.Close()
	stop()
	<-ended
	// Output:
	// doorbell 0 1
	// fetch 0 1
	// cqe 0 1
	// execute 0 1
}
