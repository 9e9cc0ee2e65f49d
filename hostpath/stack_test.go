package hostpath

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// stackOfTest returns the stack of a post of this test, which is as deep as depth says.
func stackOfTest(p *Posts, place, count uint64, depth int) Stack {
	if depth > 0 {
		return stackOfTest(p, place, count, depth-1)
	}
	p.note(place, count)
	n, s := p.At(place)
	if n != count {
		panic("another post is noted there")
	}
	return s
}

// Equal stacks have one number, and lines with this test.
func TestStacksAreKeptOnce(t *testing.T) {
	p := newPosts(1)
	var first, second []Stack
	for depth := range 3 {
		first = append(first, stackOfTest(p, 0, 1, depth))
	}
	for depth := range 3 {
		second = append(second, stackOfTest(p, 7, 1<<40, depth))
	}
	require.NotEqual(t, first[0], first[1])
	require.NotEqual(t, first[1], first[2])
	for i, s := range [][]Stack{first, second} {
		for depth := range s {
			lines := s[depth].Lines()
			require.Contains(t, lines[0], "hostpath.stackOfTest", i)
			require.Contains(t, strings.Join(lines, "\n"), "hostpath.TestStacksAreKeptOnce", i)
		}
	}
	again := make([]Stack, 2)
	for i := range again {
		again[i] = stackOfTest(p, 0, uint64(i), 0)
	}
	require.Equal(t, again[0], again[1])
	require.Nil(t, Stack(0).Lines())
}

// A depot that is full keeps what it has, and gives no number to others. Any number of goroutines add at
// once.
func TestDepotIsBounded(t *testing.T) {
	d := new(depot)
	numbers := make([][mostStacks + 100]Stack, 4)
	var all sync.WaitGroup
	for g := range numbers {
		all.Go(func() {
			for i := range numbers[g] {
				numbers[g][i] = d.number(&trace{uintptr(i + 1)})
			}
		})
	}
	all.Wait()
	full := 0
	for i := range numbers[0] {
		if n := d.number(&trace{uintptr(i + 1)}); n == 0 {
			full++
		} else {
			require.Equal(t, trace{uintptr(i + 1)}, d.traces[n])
		}
		for g := range numbers {
			if n := numbers[g][i]; n != 0 {
				require.Equal(t, d.number(&trace{uintptr(i + 1)}), n)
			}
		}
	}
	require.GreaterOrEqual(t, full, 100)
}

// noteAll notes posts first to end-1, and returns the stack of the last.
func noteAll(p *Posts, first, end uint64) (s Stack) {
	for n := first; n < end; n++ {
		p.note(n, n)
	}
	_, s = p.At(end - 1)
	return s
}

// Posts are found in their order, over many laps of the lower 16 bits of their counts.
func TestPostFinder(t *testing.T) {
	p := newPosts(1)
	f := NewPostFinder(p, true)
	for n := uint64(0); n < 3<<16; n += 3 {
		s := noteAll(p, n, n+1)
		require.NotZero(t, s)
		require.Equal(t, s, f.Found(uint16(n)), n)
	}
}

// A post whose place was taken by a later one has no stack, and those after it have theirs.
func TestPostFinderThatIsLate(t *testing.T) {
	for _, later := range []uint64{fewestPosts, 1 << 16, 5 << 16} {
		p := newPosts(1)
		f := NewPostFinder(p, true)
		s := noteAll(p, 0, 10)
		require.Equal(t, s, f.Found(9))
		noteAll(p, 10, 20+later)
		require.Zero(t, f.Found(19), later)
		last := 20 + later - 1
		s = noteAll(p, last, last+1)
		if later <= 1<<16 {
			require.Equal(t, s, f.Found(uint16(last)), later)
			continue
		}
		require.Zero(t, f.Found(uint16(last)), "it means a post before, as far as the finder can know")
		f.Lose()
		require.Equal(t, s, f.Found(uint16(last)), later)
	}
}

// The counts of a queue that was reset begin again.
func TestPostFinderAfterReset(t *testing.T) {
	p := newPosts(1)
	f := NewPostFinder(p, true)
	require.NotZero(t, noteAll(p, 0, 70000))
	f.Lose()
	require.NotZero(t, f.Found(70000&0xffff-1))
	s := noteAll(p, 0, 1)
	require.Equal(t, s, f.Found(0))
	require.Zero(t, f.Found(1), "it is of the time before")
	s = noteAll(p, 1, 3)
	require.Equal(t, s, f.Found(2))
}

// Receives of a shared receive queue are named by entries, which are used again.
func TestPostFinderOfEntries(t *testing.T) {
	p := newPosts(1)
	f := NewPostFinder(p, true)
	for n := range uint64(10) {
		s := stackOfTest(p, n%3, n, 0)
		if n > 4 {
			require.Equal(t, s, f.Listed(uint16(n%3)))
			require.Equal(t, s, f.Listed(uint16(n%3)), "found again")
		}
		require.Equal(t, s, f.Consumed(uint16(n%3)))
	}
	stackOfTest(p, 1, 10, 0)
	s := stackOfTest(p, 1, 11, 0)
	require.Zero(t, f.Listed(1), "posted again meanwhile")
	require.Zero(t, f.Consumed(1), "posted again meanwhile")
	require.Equal(t, s, f.Listed(1))
	require.Equal(t, s, f.Consumed(1))
	require.Zero(t, f.Listed(1), "consumed already")
	s = stackOfTest(p, 2, 20, 0)
	f.Lose()
	require.Equal(t, s, f.Listed(2))
	require.Equal(t, s, f.Consumed(2))
	s = stackOfTest(p, 0, 21, 0)
	require.Equal(t, s, f.Listed(0))
	require.Equal(t, s, f.Consumed(0))
	none := NewPostFinder(nil, true)
	require.Zero(t, none.Found(0))
	require.Zero(t, none.Listed(0))
	require.Zero(t, none.Consumed(0))
}

// withStacks makes queues that note where work is posted, and returns a function for each kind that posts,
// rings and makes room again.
func withStacks(t testing.TB) map[string]func() error {
	b := newBench(t, 64, func(c *SQConfig) { c.Stacks = true })
	m := newMemory(t, 64*(64+32+32)+256)
	record := m.take(8)
	shared, err := NewSharedSQ(SQConfig{Ring: m.take(64 * 64), Record: record, MaxSGE: 1, Stacks: true})
	require.NoError(t, err)
	rq, err := NewRQ(RQConfig{Ring: m.take(64 * 32), Stride: 32, Record: record, Stacks: true})
	require.NoError(t, err)
	srq, err := NewSRQ(SRQConfig{Ring: m.take(64 * 32), Stride: 32, Record: m.take(4), Stacks: true})
	require.NoError(t, err)
	send := SendWR{Op: OpWrite, SGE: sge(64)}
	receive := RecvWR{SGE: sge(64)}
	entry := uint16(0)
	return map[string]func() error{
		"SQ": func() error {
			err := b.sq.Post(&send)
			b.sq.Ring()
			b.drain()
			return err
		},
		"SharedSQ": func() error {
			err := shared.Post(&send)
			shared.Ring()
			shared.freed.Publish(shared.Reserved())
			return err
		},
		"RQ": func() error {
			err := rq.PostRecv(&receive)
			rq.freed.Publish(rq.next)
			return err
		},
		"SRQ": func() error {
			err := srq.PostRecv(&receive)
			srq.take(entry)
			srq.give(entry)
			entry = (entry + 1) % 64
			return err
		},
	}
}

// Posts allocate nothing when stacks are noted either.
func TestStacksAllocateNothing(t *testing.T) {
	for name, post := range withStacks(t) {
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if err := post(); err != nil {
				t.Error(err)
			}
		}), name)
	}
}

func BenchmarkPostWithStacks(b *testing.B) {
	for _, name := range []string{"SQ", "SharedSQ", "RQ", "SRQ"} {
		b.Run(name, func(b *testing.B) {
			post := withStacks(b)[name]
			b.ReportAllocs()
			for b.Loop() {
				if err := post(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
