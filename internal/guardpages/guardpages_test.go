//go:build linux && amd64

package guardpages

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A collector keeps faults.
type collector struct {
	mu     sync.Mutex
	faults []Fault
}

func (c *collector) add(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// take returns the faults since the last call.
func (c *collector) take() []Fault {
	Flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.faults
	c.faults = nil
	return list
}

// mapPages maps n pages of shared memory.
func mapPages(t testing.TB, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n*PageSize, open, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
	return mem
}

// guarded returns n pages that can be protected.
func guarded(t testing.TB, n int) ([]byte, *Pages, *collector) {
	t.Helper()
	mem, c := mapPages(t, n), &collector{}
	p, err := New(mem, c.add)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return mem, p, c
}

func names(calls []uintptr) (list []string) {
	frames := runtime.CallersFrames(calls)
	for {
		f, more := frames.Next()
		list = append(list, f.Function[strings.LastIndex(f.Function, "/")+1:])
		if !more {
			return list
		}
	}
}

//go:noinline
func load(mem []byte, at int) byte { return mem[at] }

//go:noinline
func store(mem []byte, at int, v byte) { mem[at] = v }

//go:noinline
func copyOut(dst, src []byte) { copy(dst, src) }

func TestLoadIsReportedOnce(t *testing.T) {
	mem, p, c := guarded(t, 4)
	mem[PageSize+8] = 42
	require.Equal(t, 2, p.Protect(mem[PageSize:3*PageSize], 7))
	require.Equal(t, byte(42), load(mem, PageSize+8), "the access is executed")
	require.Equal(t, byte(42), load(mem, PageSize+8))
	faults := c.take()
	require.Len(t, faults, 1)
	f := faults[0]
	assert.Equal(t, addressOf(mem)+PageSize+8, f.Addr)
	assert.Equal(t, uint64(7), f.Owner)
	assert.False(t, f.Write)
	list := names(f.Calls)
	require.Greater(t, len(list), 2)
	assert.Equal(t, []string{"guardpages.load", "guardpages.TestLoadIsReportedOnce", "testing.tRunner"}, list[:3])

	_ = load(mem, 0) // was never protected
	_ = load(mem, 2*PageSize)
	faults = c.take()
	require.Len(t, faults, 1, "the other page")
	require.Equal(t, addressOf(mem)+2*PageSize, faults[0].Addr)
}

func TestStoreIsReported(t *testing.T) {
	mem, p, c := guarded(t, 1)
	require.Equal(t, 1, p.Protect(mem, 9))
	store(mem, 100, 5)
	faults := c.take()
	require.Len(t, faults, 1)
	assert.True(t, faults[0].Write)
	assert.Equal(t, byte(5), mem[100])
	assert.Equal(t, "guardpages.store", names(faults[0].Calls)[0])
}

// Goroutines in copy cannot be preempted. The function that has called it is found nevertheless.
func TestCopyIsReported(t *testing.T) {
	mem, p, c := guarded(t, 3)
	mem[2*PageSize+9] = 1
	require.Equal(t, 3, p.Protect(mem, 1))
	dst := make([]byte, len(mem))
	copyOut(dst, mem)
	require.Equal(t, byte(1), dst[2*PageSize+9])
	faults := c.take()
	require.Len(t, faults, 3)
	for _, f := range faults {
		list := names(f.Calls)
		assert.Equal(t, "runtime.memmove", list[0])
		list = slices.DeleteFunc(list, func(s string) bool { return strings.HasPrefix(s, "runtime.") })
		require.Greater(t, len(list), 1)
		assert.Equal(t, []string{"guardpages.copyOut", "guardpages.TestCopyIsReported"}, list[:2])
	}
}

func TestReleasedPagesAreOpen(t *testing.T) {
	mem, p, c := guarded(t, 4)
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.Equal(t, 4, p.Protect(mem, 1))
	_, err = w.Write(mem[:100])
	require.ErrorIs(t, err, unix.EFAULT, "a system call does not open the page")
	p.Release(mem)
	n, err := w.Write(mem[:100])
	require.NoError(t, err)
	require.Equal(t, 100, n)
	for at := range mem {
		mem[at]++
	}
	require.Empty(t, c.take())
}

func TestOnlyWholePagesAreProtected(t *testing.T) {
	mem, p, c := guarded(t, 4)
	for _, b := range [][]byte{
		mem[:0], mem[:100], mem[:PageSize-1], mem[1 : PageSize+1], mem[100 : 2*PageSize-1], mem[3*PageSize+1:], mem[len(mem):],
	} {
		require.Zero(t, p.Protect(b, 1), "%d bytes", len(b))
	}
	// Two buffers share page 1.
	const middle = PageSize + PageSize/2
	require.Equal(t, 1, p.Protect(mem[:middle], 1))
	require.Equal(t, 2, p.Protect(mem[middle:], 2))
	_, _ = load(mem, PageSize), load(mem, 2*PageSize-1)
	require.Empty(t, c.take())
	p.Release(mem[:middle])
	_, _ = load(mem, 0), load(mem, 3*PageSize)
	faults := c.take()
	require.Len(t, faults, 1)
	require.Equal(t, uint64(2), faults[0].Owner)
}

// A page that is protected twice keeps its first owner, and is opened by the first Release.
func TestSamePageTwice(t *testing.T) {
	mem, p, c := guarded(t, 4)
	require.Equal(t, 2, p.Protect(mem[PageSize:3*PageSize], 1))
	require.Equal(t, 2, p.Protect(mem, 2))
	_, _ = load(mem, PageSize), load(mem, 3*PageSize)
	faults := c.take()
	require.Len(t, faults, 2)
	require.Equal(t, uint64(1), faults[0].Owner)
	require.Equal(t, uint64(2), faults[1].Owner)
	p.Release(mem[2*PageSize:])
	_ = load(mem, 2*PageSize)
	require.Empty(t, c.take())
	_ = load(mem, 0)
	require.Len(t, c.take(), 1)
}

func TestManyBuffers(t *testing.T) {
	const n = 1000
	mem, p, c := guarded(t, 2*n)
	before := room.taken.Load()
	buffer := func(i int) []byte { return mem[2*i*PageSize:][:PageSize] }
	for i := range n {
		require.Equal(t, 1, p.Protect(buffer(i), uint64(i+1)))
	}
	require.Equal(t, before+n, room.taken.Load())
	for i := n - 1; i >= 0; i -= 2 {
		_ = load(buffer(i), 8)
		if i%16 == 1 {
			Flush() // so that the socket has room
		}
	}
	faults := c.take()
	require.Len(t, faults, n/2)
	for k, f := range faults {
		require.Equal(t, uint64(n-2*k), f.Owner)
	}
	for i := range n {
		p.Release(buffer(i))
		_ = load(buffer(i), 8)
	}
	require.Empty(t, c.take())
	require.Equal(t, before, room.taken.Load())
}

// If there is no room for more mappings, buffers stay open.
func TestNoRoom(t *testing.T) {
	mem, p, c := guarded(t, 8)
	was := room.most
	defer func() { room.most = was }()
	taken := room.taken.Load()
	room.most = func() int64 { return taken + 2 }
	for i, want := range []int{1, 1, 0, 0} {
		require.Equal(t, want, p.Protect(mem[2*i*PageSize:][:PageSize], uint64(i+1)))
	}
	_, _ = load(mem, 2*PageSize), load(mem, 4*PageSize)
	require.Len(t, c.take(), 1)
	p.Release(mem)
	require.Equal(t, 4, p.Protect(mem[4*PageSize:], 1))
}

// Threads that access a page at the same time all go on, and one is reported.
func TestManyThreads(t *testing.T) {
	const rounds, threads = 200, 8
	mem, p, c := guarded(t, 1)
	for range rounds {
		require.Equal(t, 1, p.Protect(mem, 3))
		var begin, end sync.WaitGroup
		begin.Add(1)
		for k := range threads {
			end.Go(func() {
				begin.Wait()
				if k%2 == 0 {
					_ = load(mem, 8*k)
				} else {
					store(mem, 8*k, 1)
				}
			})
		}
		begin.Done()
		end.Wait()
		require.Len(t, c.take(), 1)
	}
}

// An access waits for no goroutine: not on one processor, and not while the garbage collector stops all.
func TestOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	mem, p, c := guarded(t, 64)
	dst := make([]byte, len(mem))
	for i := range 50 {
		collected := make(chan struct{})
		go func() { runtime.GC(); close(collected) }()
		require.Equal(t, 64, p.Protect(mem, uint64(i+1)))
		copyOut(dst, mem)
		<-collected
		p.Release(mem)
	}
	require.NotEmpty(t, c.take())
}

// Close goes on while others access the memory, protect and release it.
func TestCloseDuringAccesses(t *testing.T) {
	mem := mapPages(t, 16)
	for range 30 {
		var n atomic.Int64
		p, err := New(mem, func(Fault) { n.Add(1) })
		require.NoError(t, err)
		var all sync.WaitGroup
		stop := make(chan struct{})
		for k := range 3 {
			all.Go(func() {
				for i := k; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					b := mem[i%16*PageSize:][:PageSize]
					_ = load(b, 0)
					p.Protect(b, uint64(k+1))
					_ = load(b, 0)
					p.Release(b)
					runtime.Gosched()
				}
			})
		}
		for n.Load() == 0 {
			runtime.Gosched()
		}
		p.Close()
		p.Close()
		after := n.Load()
		require.Zero(t, p.Protect(mem, 1))
		close(stop)
		all.Wait()
		require.Equal(t, after, n.Load(), "nothing is reported after Close")
		Flush()
	}
}

// Faults that are none of this package go where they went before.
func TestOtherFaults(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	_, _, c := guarded(t, 1)
	require.Panics(t, func() {
		var nothing *int
		*nothing = 1
	})
	other := mapPages(t, 1)
	require.NoError(t, protect(other, unix.PROT_NONE))
	require.Panics(t, func() { _ = load(other, 0) })
	require.Empty(t, c.take())

	mem, q, _ := guarded(t, 1)
	q.Close()
	require.NoError(t, protect(mem, unix.PROT_NONE))
	require.Panics(t, func() { _ = load(mem, 0) }, "memory that is not guarded any more is tried again, but not for ever")
}

func TestNewRefuses(t *testing.T) {
	mem := mapPages(t, 2)
	for _, b := range [][]byte{nil, mem[1:], mem[:100]} {
		_, err := New(b, nil)
		require.ErrorContains(t, err, "whole pages of 4096 are possible")
	}
	p, err := New(mem, nil)
	require.NoError(t, err)
	_, err = New(mem, nil)
	require.ErrorContains(t, err, "is in use")
	p.Close()
	p, err = New(mem, nil)
	require.NoError(t, err)
	p.Close()
	require.Panics(t, func() { p.Protect(make([]byte, PageSize), 1) })
}

// Huge pages cannot be protected in part.
func TestHugePages(t *testing.T) {
	const flags = unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | unix.MAP_NORESERVE
	mem, err := unix.Mmap(-1, 0, 2<<20, open, flags)
	if err != nil {
		t.Skip("no huge pages here: ", err)
	}
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	_, err = New(mem, nil)
	require.ErrorIs(t, err, unix.EINVAL)
}

func TestFullTable(t *testing.T) {
	var all []*Pages
	mem := mapPages(t, mostSlots+1)
	page := func(i int) []byte { return mem[i*PageSize:][:PageSize] }
	for i := range mostSlots {
		p, err := New(page(i), func(Fault) {})
		require.NoError(t, err)
		all = append(all, p)
	}
	_, err := New(page(mostSlots), nil)
	require.ErrorContains(t, err, fmt.Sprint(mostSlots))
	all[100].Close()
	var c collector
	p, err := New(page(mostSlots), c.add)
	require.NoError(t, err)
	require.Equal(t, 1, p.Protect(page(mostSlots), 5))
	_ = load(page(mostSlots), 0)
	require.Len(t, c.take(), 1)
	p.Close()
	for _, p := range all {
		p.Close()
	}
}

// Accesses that come faster than they are reported are executed and counted.
func TestAccessesThatAreNotReportedAreCounted(t *testing.T) {
	mem := mapPages(t, 1)
	mem[0] = 42
	before, goesOn := Lost(), make(chan struct{})
	var reported atomic.Uint64
	p, err := New(mem, func(Fault) {
		<-goesOn
		reported.Add(1)
	})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	resume := sync.OnceFunc(func() { close(goesOn) })
	t.Cleanup(resume) // before Close, which waits for the reports
	accesses := uint64(0)
	for Lost() == before {
		require.Less(t, accesses, uint64(1_000_000))
		require.Equal(t, 1, p.Protect(mem, 1))
		require.Equal(t, byte(42), load(mem, 0))
		accesses++
	}
	require.Equal(t, before+1, Lost())
	resume()
	Flush()
	require.Equal(t, accesses-1, reported.Load())
	t.Logf("%d accesses waited to be reported", accesses-1)
}

// A page that was accessed and is protected again has its room for a run already.
func TestRoomOfARunIsTakenOnce(t *testing.T) {
	mem, p, _ := guarded(t, 2)
	before := room.taken.Load()
	for range 10 {
		require.Equal(t, 1, p.Protect(mem[:PageSize], 7))
		store(mem, 5, 1)
	}
	require.Equal(t, before+1, room.taken.Load())
	p.Release(mem)
	require.Equal(t, before, room.taken.Load())
}
