//go:build linux && amd64

package nicless

import (
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/guardpages"
	"github.com/nicless/nicless/sanitize"
	"github.com/stretchr/testify/require"
)

// holdReport makes an early read whose report ends when the returned function is called.
func (r *earlyRig) holdReport() (goOn func()) {
	r.Helper()
	begun, ends := make(chan struct{}), make(chan struct{})
	report := r.ctx.early.Load().report
	r.ctx.early.Load().report = func(a earlyAccess) {
		report(a)
		close(begun)
		<-ends
	}
	r.post(1, 4096, 4096)
	_ = readEarly(r.mr.Bytes(), 4096)
	await.Receive(r, "the report has begun", begun)
	goOn = sync.OnceFunc(func() { close(ends) })
	r.Cleanup(goOn)
	return goOn
}

// flushing calls guardpages.Flush on a goroutine, and returns a channel that is closed after that.
func flushing() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		guardpages.Flush()
	}()
	return ended
}

// While a report is made, memory can be registered and completions can be polled. Flush and the registration
// wait for the report, and nothing that the report needs waits for them.
func TestRegisterWhileAnEarlyReadIsReported(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		goOn := r.holdReport()
		flushed := flushing()
		registered := make(chan error, 1)
		go func() {
			mr, err := r.pd.RegisterMemory(4096, FullAccess)
			if err == nil {
				err = mr.Close()
			}
			registered <- err
		}()
		for range 100 { // the registration comes to where it waits meanwhile
			r.post(2, 8192, 4096)
			r.send(5)
		}
		goOn()
		require.NoError(r, await.Receive(r, "the memory is registered and closed", registered))
		await.Receive(r, "Flush returns", flushed)
	})
}

// Memory that is closed while all memory is opened stays mapped until it is open. Otherwise what the program
// maps there next would be opened.
func TestCloseMemoryWhileAllIsOpened(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		const n = 8
		var list [n]*MR
		for i := range list {
			var err error
			list[i], err = r.pd.RegisterMemory(4096, FullAccess)
			require.NoError(r, err)
		}
		goOn := r.holdReport()
		e := r.ctx.early.Load()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			e.close()
		}()
		await.Until(r, "the memory is being opened", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.closed
		})
		ended := make(chan error, n)
		for _, m := range list {
			go func() { ended <- m.Close() }()
		}
		for range 100 { // they come to where they wait meanwhile
			r.post(2, 8192, 4096)
			r.send(5)
		}
		require.Empty(r, ended, "they wait for the accesses that were found to be reported, as opening does")
		goOn()
		for range list {
			require.NoError(r, await.Receive(r, "the memory is closed", ended))
		}
		await.Receive(r, "all memory is open", closed)
	})
}

// One goroutine keeps an SRQ full, another one polls and reads what it has polled.
func TestPollAndPostOfAnSRQ(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		const messages, pages = 200, 64
		srq, err := x.pd.CreateSRQ(SRQConfig{MaxWR: 3})
		require.NoError(x, err)
		received, err := x.c.CreateCQ(CQConfig{Entries: 64})
		require.NoError(x, err)
		a, err := x.pd.CreateQP(QPConfig{SendCQ: x.cq, MaxSendWR: 16})
		require.NoError(x, err)
		b, err := x.pd.CreateQP(QPConfig{SendCQ: x.cq, RecvCQ: received, SRQ: srq})
		require.NoError(x, err)
		require.NoError(x, Pair(a, b, Connection{}))
		mr, err := x.pd.RegisterMemory(pages*4096, FullAccess)
		require.NoError(x, err)
		free := make(chan int, pages)
		for k := range pages {
			free <- k
		}
		posted := make(chan error, 1)
		go func() {
			var err error
			for n := 0; n < messages && err == nil; {
				k := <-free
				err = ErrFull
				for err == ErrFull {
					err = srq.PostRecv(&RecvWR{ID: uint64(k), SGE: []SGE{mr.SGE(k*4096, 4096)}})
				}
				n++
			}
			posted <- err
		}()
		sent, got := 0, 0
		for got < messages {
			if sent < messages && sent-got < 8 {
				x.post(a, x.wr(Send, sentAt, 0))
				sent++
			}
			var list [8]Completion
			_, err := x.cq.Poll(list[:])
			require.NoError(x, err)
			n, err := received.Poll(list[:])
			require.NoError(x, err)
			for _, c := range list[:n] {
				require.NoError(x, c.Err())
				_ = readEarly(mr.Bytes(), int(c.ID)*4096)
				free <- int(c.ID)
				got++
			}
		}
		require.NoError(x, await.Receive(x, "all receives are posted", posted))
		require.Empty(x, x.reports())
	})
}

// Receives of queues that are older than the Sanitizer are not protected: their completions could not open
// them.
func TestQueuesBeforeTheSanitizer(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		require.NoError(x, x.s.Close())
		s, err := x.c.Sanitize(SanitizerConfig{})
		require.NoError(x, err)
		x.mr, err = x.pd.RegisterMemory(4*4096, FullAccess)
		require.NoError(x, err)
		postPage(x, 1)
		x.post(x.a[0], x.wr(Send, sentAt, 0))
		x.take(2)
		_ = readEarly(x.mr.Bytes(), 4096)
		guardpages.Flush()
		require.NoError(x, s.Close())
		require.Empty(x, s.Reports())
	})
}

// A receive that is posted to a queue that is gone is not protected.
func TestEarlyPostAfterTheEnd(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		e := r.ctx.early.Load()
		require.NoError(r, r.b.Close())
		wr := RecvWR{SGE: []SGE{r.mr.SGE(4096, 4096)}}
		e.post(r.b.receives(), 0, &wr, nil)
		_ = readEarly(r.mr.Bytes(), 4096)
		require.Empty(r, r.take())
		require.NotContains(r, e.queues, r.b.receives())
	})
}

// After a store, an early load from another page is found.
func TestEarlyReadAfterAStore(t *testing.T) {
	withEarly(t, false, func(r *earlyRig) {
		r.post(1, 4096, 3*4096)
		mem := r.mr.Bytes()
		mem[4096], mem[2*4096] = 1, 1
		_ = readEarly(mem, 3*4096)
		list := r.take()
		require.Len(r, list, 2)
		require.True(r, list[0].write)
		require.False(r, list[1].write)
	})
}

// Report may close memory, and take a lock that the program holds while it does so.
func TestReportClosesMemory(t *testing.T) {
	c := dialled(t)
	var err error
	var lock sync.Mutex
	var spare *MR
	done := make(chan error, 1)
	x := &receiver{suspect: newSuspect(t, c, SanitizerConfig{Report: func(*sanitize.Report) {
		lock.Lock()
		defer lock.Unlock()
		done <- spare.Close()
	}})}
	x.mr, err = x.pd.RegisterMemory(4*4096, FullAccess)
	require.NoError(t, err)
	var other *MR
	for _, m := range []**MR{&spare, &other} {
		*m, err = x.pd.RegisterMemory(4096, FullAccess)
		require.NoError(t, err)
	}
	lock.Lock()
	postPage(x, 1)
	_ = readEarly(x.mr.Bytes(), 4096)
	require.NoError(t, other.Close())
	lock.Unlock()
	require.NoError(t, await.Receive(t, "the report", done))
	require.NoError(t, c.Close())
	require.Len(t, x.s.Reports(), 1)
}

// A buffer that is read early again and again is reported once. Stores are forgotten with their queue.
func TestEarlyAccessesAreBounded(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		p := x.pair(x.cq)
		for range 20 {
			require.NoError(x, p[1].PostRecv(&RecvWR{SGE: []SGE{x.mr.SGE(4096, 4096)}}))
			_ = readEarly(x.mr.Bytes(), 4096)
			require.NoError(x, p[1].PostRecv(&RecvWR{SGE: []SGE{x.mr.SGE(2*4096, 4096)}}))
			x.mr.Bytes()[2*4096] = 1
			x.post(p[0], x.wr(Send, sentAt, 0), x.wr(Send, sentAt, 0))
			x.take(4)
		}
		guardpages.Flush()
		require.NoError(x, p[0].Close())
		require.NoError(x, p[1].Close())
		await.Until(x, "the stores are forgotten", func() bool {
			x.s.mu.Lock()
			defer x.s.mu.Unlock()
			return len(x.s.stored) == 0
		})
		reads := 0
		for _, r := range x.reports() {
			if r.Code == sanitize.ReceiveBufferRead {
				reads++
			}
		}
		require.Equal(x, 1, reads)
	})
}

// After the end of the last Sanitizer, nothing of other contexts is protected.
func TestOtherContextAfterSanitizer(t *testing.T) {
	path := inProcess(t, Config{})
	x := newSuspect(t, dialed(t, path), SanitizerConfig{})
	c := dialed(t, path)
	y := &suspect{T: t, c: c}
	var err error
	y.pd, err = c.AllocPD()
	require.NoError(t, err)
	y.cq, err = c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	mr, err := y.pd.RegisterMemory(3*4096, FullAccess)
	require.NoError(t, err)
	y.a = y.pair(y.cq)
	e := c.early.Load()
	require.NotNil(t, e)
	require.NoError(t, y.a[1].PostRecv(&RecvWR{SGE: []SGE{mr.SGE(4096, 4096)}}))
	require.NoError(t, x.s.Close())
	require.True(t, c.early.Load() == nil)
	require.NoError(t, y.a[1].PostRecv(&RecvWR{SGE: []SGE{mr.SGE(2*4096, 4096)}}))
	_, _ = readEarly(mr.Bytes(), 4096), readEarly(mr.Bytes(), 2*4096)
	guardpages.Flush()
	for _, r := range e.owners {
		require.False(t, r.reported)
	}
}
