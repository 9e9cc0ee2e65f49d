package accel_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newDevice(t testing.TB, cfg accel.Config) (*accel.Device, *accel.Stream) {
	t.Helper()
	d, err := accel.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, err := d.NewStream()
	require.NoError(t, err)
	return d, s
}

func launch(t testing.TB, s *accel.Stream, blocks, threads int, k accel.Kernel) error {
	t.Helper()
	require.NoError(t, s.Launch(accel.Grid{Blocks: blocks, Threads: threads}, k))
	return s.Sync()
}

// heap stands for registered memory in tests of kernels that only compute. No RDMA device
// knows it.
type heap []byte

func (h heap) Bytes() []byte { return h }
func (heap) Addr() uint64    { return 0 }
func (heap) LKey() uint32    { return 0 }

func TestEveryLaneOnce(t *testing.T) {
	_, s := newDevice(t, accel.Config{Multiprocessors: 3, Resident: 2})
	const blocks, threads = 50, 70
	var seen [blocks * threads]atomic.Int32
	require.NoError(t, launch(t, s, blocks, threads, func(th *accel.Thread) {
		if th.Global() != th.Block()*th.Threads()+th.Index() || th.Blocks() != blocks ||
			th.Warp() != th.Index()/32 || th.Lane() != th.Index()%32 {
			panic("lost")
		}
		seen[th.Global()].Add(1)
	}))
	for i := range seen {
		require.EqualValues(t, 1, seen[i].Load())
	}
}

// A block sums its numbers as GPUs do: each step adds the upper half of the numbers to the
// lower half. Each step needs the values that other lanes wrote before Sync.
func TestSync(t *testing.T) {
	_, s := newDevice(t, accel.Config{})
	const threads = 256
	var sums [4]int
	require.NoError(t, s.Launch(accel.Grid{Blocks: 4, Threads: 1}, func(th *accel.Thread) {}))
	shared := [4][threads]int{}
	require.NoError(t, launch(t, s, 4, threads, func(th *accel.Thread) {
		v := &shared[th.Block()]
		v[th.Index()] = th.Global()
		for n := threads / 2; n > 0; n /= 2 {
			th.Sync()
			if th.Index() < n {
				v[th.Index()] += v[th.Index()+n]
			}
		}
		if th.Index() == 0 {
			sums[th.Block()] = v[0]
		}
	}))
	for b, sum := range sums {
		require.Equal(t, threads*(threads-1)/2+b*threads*threads, sum)
	}
}

func TestWarp(t *testing.T) {
	_, s := newDevice(t, accel.Config{})
	var elected atomic.Int32
	require.NoError(t, launch(t, s, 1, 64, func(th *accel.Thread) {
		if th.Lane() == 5 { // this lane ends and takes no part in the next operations
			return
		}
		all := ^uint32(1 << 5)
		for i := range 10 {
			odd := th.Ballot(th.Lane()%2 == 1)
			if odd != 0xaaaaaaaa&all {
				panic(odd)
			}
			if got := th.Shuffle(uint64(th.Lane()+i), 7); got != uint64(7+i) {
				panic(got)
			}
			if got := th.Shuffle(99, 5); got != 99 {
				panic("a lane that has ended")
			}
			want := uint64(th.Lane() ^ 3)
			if want == 5 {
				want = uint64(th.Lane())
			}
			if got := th.ShuffleXor(uint64(th.Lane()), 3); got != want {
				panic(got)
			}
			th.SyncWarp()
			if th.Elect() {
				elected.Add(1)
				if th.Lane() != 0 {
					panic("not the lowest")
				}
			}
		}
		if bits.OnesCount32(th.Ballot(true)) != 31 {
			panic("somebody is missing")
		}
	}))
	require.EqualValues(t, 20, elected.Load(), "one lane of two warps, ten times")
}

// Words of device memory are atomic across multiprocessors.
func TestGridAtomics(t *testing.T) {
	_, s := newDevice(t, accel.Config{Multiprocessors: 4})
	b := accel.NewBuffer(heap(accel8(3)))
	require.NoError(t, launch(t, s, 16, 64, func(th *accel.Thread) {
		b.Add(0, 2)
		for { // stores the greatest number
			old := b.Load(8)
			if old >= uint64(th.Global()) || b.CompareSwap(8, old, uint64(th.Global())) == old {
				break
			}
		}
	}))
	require.EqualValues(t, 2*16*64, b.Load(0))
	require.EqualValues(t, 16*64-1, b.Load(8))
}

// accel8 returns memory of n words, at an address that is a multiple of 8.
func accel8(n int) []byte { return make([]byte, 8*max(n, 8)) }

func TestStream(t *testing.T) {
	d, s := newDevice(t, accel.Config{})
	b := accel.NewBuffer(heap(accel8(8)))
	in, out := []byte("abcdefgh"), make([]byte, 8)
	require.NoError(t, s.CopyIn(b, 0, in))
	require.NoError(t, s.Launch(accel.Grid{Blocks: 1, Threads: 8},
		func(th *accel.Thread) { b.Bytes()[th.Index()] -= 32 }))
	e, err := s.Record()
	require.NoError(t, err)
	other, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, other.WaitFor(e))
	require.NoError(t, other.CopyOut(out, b, 0))
	require.NoError(t, other.Sync())
	require.Equal(t, "ABCDEFGH", string(out))
	require.NoError(t, e.Wait(context.Background()))
	<-e.Done()
	f := accel.Slice[uint32](b)
	require.Len(t, f, len(b.Bytes())/4)

	require.EqualError(t, s.CopyIn(b, 60, in), "accel: 8 bytes at offset 60; the buffer has 64")
	require.EqualError(t, s.CopyOut(out, b, -1), "accel: 8 bytes at offset -1; the buffer has 64")
	require.NoError(t, other.Close())
	require.ErrorIs(t, other.Launch(accel.Grid{Blocks: 1, Threads: 1}, func(*accel.Thread) {}),
		accel.ErrClosed)
}

func TestBadInput(t *testing.T) {
	_, s := newDevice(t, accel.Config{})
	k := func(*accel.Thread) {}
	for want, g := range map[string]accel.Grid{
		"accel: grid of 0 blocks; 1 to 2147483647 are possible":  {Threads: 1},
		"accel: blocks of 0 threads; 1 to 1024 are possible":     {Blocks: 1},
		"accel: blocks of 1025 threads; 1 to 1024 are possible":  {Blocks: 1, Threads: 1025},
		"accel: grid of -3 blocks; 1 to 2147483647 are possible": {Blocks: -3, Threads: 1},
	} {
		require.EqualError(t, s.Launch(g, k), want)
	}
	require.EqualError(t, s.Launch(accel.Grid{Blocks: 1, Threads: 1}, nil), "accel: no kernel (nil)")
	_, err := accel.New(accel.Config{Multiprocessors: -1})
	require.EqualError(t, err, "accel: Multiprocessors -1; 1 to 256 are possible")
	_, err = accel.New(accel.Config{Multiprocessors: 3, CPUs: []int{1 << 20}})
	require.ErrorContains(t, err, "accel: core 1048576 does not exist or is not allowed to this process")
	_, err = accel.NewQueue(accel.Export{})
	require.ErrorContains(t, err, "take what QP.Export returns")
	b := accel.NewBuffer(heap(accel8(8)))
	require.ErrorContains(t, launch(t, s, 1, 1, func(th *accel.Thread) { th.WaitUntil(b, 61, accel.EQ, 0) }),
		"offset 61; a multiple of 8 from 0 to 56 is possible")
}

// Kernels run on the cores that the configuration names, even after another kernel has ended
// the goroutine of a multiprocessor (runtime.Goexit). A device that may use all cores is not affected.
func TestCPUs(t *testing.T) {
	cores := func() (set unix.CPUSet) {
		require.NoError(t, unix.SchedGetaffinity(0, &set))
		return set
	}
	all, core := cores(), 0
	for !all.IsSet(core) {
		core++
	}
	d, s := newDevice(t, accel.Config{CPUs: []int{core}})
	var seen unix.CPUSet
	look := func(*accel.Thread) { seen = cores() }
	require.NoError(t, launch(t, s, 1, 1, look))
	require.True(t, seen.IsSet(core) && seen.Count() == 1)
	require.Error(t, launch(t, s, 1, 1, func(*accel.Thread) { runtime.Goexit() }))
	s, err := d.NewStream()
	require.NoError(t, err)
	seen.Zero()
	require.NoError(t, launch(t, s, 1, 1, look))
	require.True(t, seen.IsSet(core) && seen.Count() == 1)
	_, s = newDevice(t, accel.Config{})
	require.NoError(t, launch(t, s, 1, 1, look))
	require.Equal(t, all, seen)
}

func TestKernelPanics(t *testing.T) {
	d, s := newDevice(t, accel.Config{Multiprocessors: 2})
	boom := errors.New("boom")
	err := launch(t, s, 4, 64, func(th *accel.Thread) {
		if th.Block() == 2 && th.Index() == 33 {
			panic(boom)
		}
		th.Sync()
		th.Sync()
	})
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "accel: kernel, block 2, thread 33: panic: boom")
	var e *accel.KernelError
	require.ErrorAs(t, err, &e)
	require.Contains(t, string(e.Stack), "TestKernelPanics")
	require.ErrorIs(t, s.Launch(accel.Grid{Blocks: 1, Threads: 1}, func(*accel.Thread) {}), boom,
		"the stream is in error")
	require.ErrorIs(t, s.Err(), boom)

	other, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, launch(t, other, 4, 64, func(th *accel.Thread) { th.Sync() }), "the device lives")
	require.ErrorContains(t, launch(t, other, 1, 1, func(*accel.Thread) { panic("a string") }),
		"panic: a string")
}

// If a kernel panics with an error whose methods panic, the program does not end.
func TestKernelPanicsBadly(t *testing.T) {
	_, s := newDevice(t, accel.Config{})
	err := launch(t, s, 1, 1, func(*accel.Thread) { panic((*accel.KernelError)(nil)) })
	require.ErrorContains(t, err, "accel: kernel, block 0, thread 0: panic: <nil>")
}

// Goexit ends the multiprocessor, so that its other kernels cannot continue. The device starts
// another multiprocessor. Sync returns only when none of these kernels is executed any more.
func TestKernelExits(t *testing.T) {
	d, guilty := newDevice(t, accel.Config{})
	bystander, err := d.NewStream()
	require.NoError(t, err)
	b := accel.NewBuffer(heap(accel8(8)))
	running, over := make(chan struct{}), false
	require.NoError(t, bystander.Launch(accel.Grid{Blocks: 1, Threads: 1}, func(th *accel.Thread) {
		defer func() {
			for range 100 {
				runtime.Gosched()
			}
			over = true
		}()
		close(running)
		th.WaitUntil(b, 0, accel.EQ, 1)
	}))
	<-running
	err = launch(t, guilty, 2, 40, func(th *accel.Thread) {
		th.Sync()
		if th.Index() == 3 {
			runtime.Goexit() // t.FailNow does this too
		}
		th.Sync()
	})
	require.ErrorContains(t, err, "accel: kernel, block 0, thread 3: runtime.Goexit was called")
	require.ErrorContains(t, bystander.Sync(), "another kernel ended the multiprocessor")
	require.True(t, over)
	other, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, launch(t, other, 4, 64, func(th *accel.Thread) { th.Sync() }), "the device lives")
}

func TestDeadlock(t *testing.T) {
	_, s := newDevice(t, accel.Config{})
	err := launch(t, s, 2, 40, func(th *accel.Thread) {
		if th.Block() == 0 {
			return
		}
		if th.Index() == 5 {
			th.SyncWarp()
			return
		}
		th.Sync()
	})
	require.EqualError(t, err,
		"accel: kernel, block 1, thread 0: the block is deadlocked: 39 lanes are at Sync, 1 at an operation of their warp, 0 have ended")
}

func TestCloseUnderAKernel(t *testing.T) {
	d, err := accel.New(accel.Config{Multiprocessors: 2})
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	b := accel.NewBuffer(heap(accel8(8)))
	running := make(chan struct{}, 100)
	require.NoError(t, s.Launch(accel.Grid{Blocks: 100, Threads: 2}, func(th *accel.Thread) {
		running <- struct{}{}
		th.WaitUntil(b, 0, accel.EQ, 1) // waits for ever
	}))
	e, err := s.Record()
	require.NoError(t, err)
	<-running
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, e.Wait(context.Background()), accel.ErrClosed)
	require.ErrorIs(t, s.Sync(), accel.ErrClosed)
	_, err = d.NewStream()
	require.ErrorIs(t, err, accel.ErrClosed)
}

// A closed device leaves no goroutine behind.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		d, err := accel.New(accel.Config{Multiprocessors: 2})
		require.NoError(t, err)
		s, err := d.NewStream()
		require.NoError(t, err)
		require.NoError(t, launch(t, s, 4, 64, func(th *accel.Thread) { th.Sync() }))
		require.NoError(t, d.Close())
	}
	await.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before },
		func() any { return fmt.Sprintf("%d goroutines, %d before", runtime.NumGoroutine(), before) })
}
