package accel_test

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Each lane of a kernel of 32 lanes puts 8 bytes into the memory of the peer. Then one of the
// lanes sets a flag there, which becomes visible after all the bytes.
func Example() {
	nic := must(nicless.Open(nicless.Config{}))
	defer nic.Close()
	pd := must(nic.AllocPD())
	near := accel.NewBuffer(must(pd.RegisterMemory(4096, nicless.FullAccess)))
	far := accel.NewBuffer(must(pd.RegisterMemory(4096, nicless.FullAccess)))
	cq := must(nic.CreateCQ(nicless.CQConfig{PollOnly: true}))
	a := must(pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true}))
	b := must(pd.CreateQP(nicless.QPConfig{SendCQ: cq}))
	if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
		panic(err)
	}
	q := must(accel.NewQueue(must(a.Export())))

	dev := must(accel.New(accel.Config{}))
	defer dev.Close()
	s := must(dev.NewStream())
	err := s.Launch(accel.Grid{Blocks: 1, Threads: accel.WarpSize}, func(t *accel.Thread) {
		at := 8 * t.Lane()
		near.Store(at, uint64(t.Lane()*t.Lane()))
		t.PutWarp(q, far.Ref(at), near.Ref(at), 8)
		t.SyncWarp()
		if t.Elect() {
			t.AtomicAdd(q, far.Ref(1024), 1)
		}
		t.WaitUntil(far, 1024, accel.EQ, 1)
	})
	fmt.Println(err, s.Sync())
	fmt.Println(accel.Slice[uint64](far)[:8])
	// Output:
	// <nil> <nil>
	// [0 1 4 9 16 25 36 49]
}

// A panic ends the kernel, and the stream's error says in which block and thread.
func ExampleStream_Sync() {
	dev := must(accel.New(accel.Config{}))
	defer dev.Close()
	s := must(dev.NewStream())
	_ = s.Launch(accel.Grid{Blocks: 1, Threads: 2}, func(t *accel.Thread) {
		if t.Index() == 1 {
			panic("no way")
		}
	})
	fmt.Println(s.Sync())
	// Output: accel: kernel, block 0, thread 1: panic: no way
}
