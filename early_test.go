//go:build linux && amd64

package nicless

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/guardpages"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An earlyRig is a context that looks for early accesses, with two queue pairs that are connected.
type earlyRig struct {
	*testing.T
	ctx  *Context
	pd   *PD
	cq   *CQ
	a, b *QP // messages go from a to b
	mr   *MR

	mu      sync.Mutex
	found   []earlyAccess
	refused []error
}

// withEarly runs a test with an engine in this process, and with one that has its own mapping anyway.
func withEarly(t *testing.T, srq bool, f func(*earlyRig)) {
	t.Run("embedded", func(t *testing.T) {
		if shm.RaceEnabled {
			t.Skip("with the race detector, device and program share a mapping")
		}
		ctx, err := Open(Config{})
		require.NoError(t, err)
		f(newEarlyRig(t, ctx, srq))
	})
	t.Run("dialled", func(t *testing.T) { f(newEarlyRig(t, dialled(t), srq)) })
}

// dialled returns a client of an engine that other processes could use.
func dialled(t *testing.T) *Context {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	serving, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Serve(serving, path, 0o600, Config{}, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	<-ready
	ctx, err := Dial(path)
	require.NoError(t, err)
	return ctx
}

const earlyPages = 64

func newEarlyRig(t *testing.T, ctx *Context, srq bool) *earlyRig {
	t.Helper()
	r := &earlyRig{T: t, ctx: ctx}
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	ctx.findEarly(func(a earlyAccess) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found = append(r.found, a)
	}, func(err error) { r.refused = append(r.refused, err) })
	var err error
	r.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	r.cq, err = ctx.CreateCQ(CQConfig{Entries: 4096})
	require.NoError(t, err)
	cfg := QPConfig{SendCQ: r.cq, MaxRecvWR: 1024}
	r.a, err = r.pd.CreateQP(cfg)
	require.NoError(t, err)
	if srq {
		cfg.SRQ, err = r.pd.CreateSRQ(SRQConfig{})
		require.NoError(t, err)
	}
	r.b, err = r.pd.CreateQP(cfg)
	require.NoError(t, err)
	require.NoError(t, Pair(r.a, r.b, Connection{}))
	r.mr, err = r.pd.RegisterMemory(earlyPages*4096, FullAccess)
	require.NoError(t, err)
	return r
}

// post posts a receive with one piece of memory.
func (r *earlyRig) post(id uint64, off, n int) {
	r.Helper()
	wr := RecvWR{ID: id, SGE: []SGE{r.mr.SGE(off, n)}}
	if r.b.srq != nil {
		require.NoError(r, r.b.srq.PostRecv(&wr))
		return
	}
	require.NoError(r, r.b.PostRecv(&wr))
}

// send sends n bytes from the first page, and polls both completions.
func (r *earlyRig) send(n int) {
	r.Helper()
	require.NoError(r, r.a.PostSend(&SendWR{ID: 99, Op: Send, Flags: Signaled, SGE: []SGE{r.mr.SGE(0, n)}}))
	var c [2]Completion
	for got := 0; got < 2; {
		k, err := r.cq.Wait(r.Context(), c[got:])
		require.NoError(r, err)
		got += k
	}
	require.NoError(r, c[0].Err())
	require.NoError(r, c[1].Err())
}

// take returns what was found since the last call.
func (r *earlyRig) take() []earlyAccess {
	guardpages.Flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.found
	r.found = nil
	return list
}

//go:noinline
func readEarly(b []byte, at int) byte { return b[at] }

func TestEarlyRead(t *testing.T) {
	for name, srq := range map[string]bool{"queue pair": false, "SRQ": true} {
		t.Run(name, func(t *testing.T) {
			withEarly(t, srq, func(r *earlyRig) {
				mem := r.mr.Bytes()
				copy(mem, "hello")
				r.post(1, 4096, 4096)
				r.post(2, 8192+100, 3*4096)  // two whole pages
				_ = readEarly(mem, 8192+100) // not in a whole page
				require.Empty(r, r.take())
				_ = readEarly(mem, 3*4096+5)
				_ = readEarly(mem, 4*4096) // the same receive
				list := r.take()
				require.Len(r, list, 1)
				a := list[0]
				base := r.mr.Addr()
				require.Equal(r, uint64(2), a.id)
				require.Equal(r, uint16(1), a.index)
				require.Equal(r, base+3*4096+5, a.addr)
				require.Equal(r, base+8192+100, a.buffer)
				require.Equal(r, uint32(3*4096), a.length)
				require.Equal(r, r.mr.LKey(), a.key)
				require.False(r, a.write)
				require.Equal(r, r.b.receives(), a.queue)
				f, _ := runtime.CallersFrames(a.calls).Next()
				require.True(r, strings.HasSuffix(f.Function, ".readEarly"), f.Function)

				r.send(5)
				require.Equal(r, "hello", string(mem[4096:4096+5]))
				r.send(5)
				require.Equal(r, "hello", string(mem[8192+100:][:5]))
				require.Empty(r, r.take(), "after the completion")
			})
		})
	}
}

func TestEarlyWrite(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		r.post(1, 4096, 2*4096)
		r.mr.Bytes()[2*4096] = 1
		list := r.take()
		require.Len(r, list, 1)
		require.True(r, list[0].write)
	})
}

// After the completion, the kernel reads the buffer as it does other memory.
func TestReceivedBufferInSystemCall(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		mem := r.mr.Bytes()
		copy(mem, "hello")
		r.post(1, 4096, 4096)
		in, out, err := os.Pipe()
		require.NoError(r, err)
		defer in.Close()
		defer out.Close()
		_, err = out.Write(mem[4096:][:5])
		require.ErrorIs(r, err, unix.EFAULT, "before the completion the page is protected")
		r.send(5)
		_, err = out.Write(mem[4096:][:5])
		require.NoError(r, err)
		b := make([]byte, 5)
		_, err = in.Read(b)
		require.NoError(r, err)
		require.Equal(r, "hello", string(b))
		require.Empty(r, r.take())
	})
}

// Receives go round the ring many times. Each is found by its index.
func TestManyEarlyReads(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		mem := r.mr.Bytes()
		const rounds = 100
		slots := earlyPages - 1
		for round := range rounds {
			for i := range slots {
				r.post(uint64(round*slots+i), (1+i)*4096, 4096)
			}
			i := round % slots
			_ = readEarly(mem, (1+i)*4096)
			for range slots {
				r.send(8)
			}
			for i := range slots {
				_ = readEarly(mem, (1+i)*4096)
			}
			list := r.take()
			require.Len(r, list, 1)
			require.Equal(r, uint64(round*slots+i), list[0].id)
			require.Equal(r, uint16(round*slots+i), list[0].index)
		}
	})
}

// A queue pair that was reset, or is gone, gives its buffers back.
func TestBuffersOfEndedQueues(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		mem := r.mr.Bytes()
		r.post(1, 4096, 4096)
		require.NoError(r, r.b.Modify(&Attr{Mask: AttrState, State: StateRST}))
		_ = readEarly(mem, 4096)
		require.Empty(r, r.take())
		require.NoError(r, r.b.Close())
		b, err := r.pd.CreateQP(QPConfig{SendCQ: r.cq})
		require.NoError(r, err)
		r.b = b
		r.post(2, 8192, 4096)
		require.NoError(r, b.Close())
		_ = readEarly(mem, 8192)
		require.Empty(r, r.take())
	})
}

// Receives that are flushed have completions, too.
func TestFlushedReceives(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		r.post(1, 4096, 4096)
		r.post(2, 8192, 4096)
		require.NoError(r, r.b.Modify(&Attr{Mask: AttrState, State: StateERR}))
		var c [2]Completion
		for got := 0; got < 2; {
			n, err := r.cq.Wait(r.Context(), c[got:])
			require.NoError(r, err)
			got += n
		}
		require.Error(r, c[0].Err())
		_, _ = readEarly(r.mr.Bytes(), 4096), readEarly(r.mr.Bytes(), 8192)
		require.Empty(r, r.take())
	})
}

// Memory is unmapped while receives are posted, and while others read it.
func TestEarlyReadsDuringClose(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		r.post(1, 4096, (earlyPages-1)*4096)
		mem := r.mr.Bytes()
		var all sync.WaitGroup
		stop := make(chan struct{})
		for k := range 2 {
			all.Go(func() {
				for i := k; ; i++ {
					select {
					case <-stop:
						return
					default:
						_ = readEarly(mem, i%earlyPages*4096)
					}
				}
			})
		}
		await.Until(r.T, "an access was found", func() bool { return len(r.take()) > 0 })
		require.NoError(r, r.ctx.Close())
		close(stop)
		all.Wait()
		runtime.KeepAlive(r.mr)
	})
}

// Keys of parts, zero-based keys, and keys that were registered again.
func TestEarlyReadByOtherKeys(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		whole := r.mr
		part, err := whole.Register(4096, 8*4096, LocalWrite|ZeroBased)
		require.NoError(r, err)
		r.mr = part
		r.post(1, 4096, 4096)
		_ = readEarly(whole.Bytes(), 2*4096)
		list := r.take()
		require.Len(r, list, 1)
		require.Equal(r, whole.Addr()+2*4096, list[0].buffer)
		require.NoError(r, part.Reregister(nil, 16*4096, 4096, LocalWrite))
		r.post(2, 0, 4096)
		_ = readEarly(whole.Bytes(), 16*4096)
		list = r.take()
		require.Len(r, list, 1)
		require.Equal(r, uint64(2), list[0].id)
		require.NoError(r, part.Close())
		r.mr = whole
		r.post(3, 0, 4096)
		require.NoError(r, whole.Close())
	})
}

// An engine that uses the program's mapping, because the memory is in a file, gets no protected pages.
func TestSharedMappingIsRefused(t *testing.T) {
	f, _ := poolFile(t)
	ctx, err := Open(Config{Memory: &Memory{File: f, Offset: fileFrom}})
	require.NoError(t, err)
	r := newEarlyRig(t, ctx, false)
	r.post(1, 4096, 4096)
	_ = readEarly(r.mr.Bytes(), 4096)
	require.Empty(t, r.take())
	require.Len(t, r.refused, 1)
	require.ErrorContains(t, r.refused[0], "uses the same mapping")
}
