package programs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// Every operation moves the right bytes, in every kind of memory, and fails when it has to.
func TestValidate(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "validate")
	for i, mode := range modesNow() {
		for j, ends := range []string{"threads", "processes"} {
			if !share.Has(2*i + j) {
				continue
			}
			t.Run(mode.name+"/"+ends, func(t *testing.T) {
				said := newLab(t, mode.flags...).run(path, ends)
				require.Contains(t, said, "validate: "+ends+": 6 kinds of memory, 11 sizes, 18 errors: ok\n")
			})
		}
	}
}

// A program posts, without libmlx5, to queues that libmlx5 has made.
func TestRawPost(t *testing.T) {
	t.Parallel()
	path := check(t, "rawpost")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			require.Contains(t, newLab(t, mode.flags...).run(path), "rawpost: 3393 WQEs into rings of 256 blocks: ok\n")
		})
	}
}

// Completions are compressed in CQs that ask for it, and a poller that expands them finds every
// completion.
func TestCompress(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "compress")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			said := newLab(t, mode.flags...).run(path)
			require.Contains(t, said, "compress: 3 formats, 3 rings, 2 sizes of entries, 4 kinds of work: ok\n")
			t.Log(said)
		})
	}
}

// ibv_query_rt_values_ex and the time stamps of completions read one clock.
func TestClock(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "clock")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			require.Contains(t, newLab(t, mode.flags...).run(path), "clock: 3 contexts, 40000 readings in order, rate, real time: ok\n")
		})
	}
}

// Programs wake a device that sleeps when they post, and when they arm a completion queue.
func TestPostersWakeTheDevice(t *testing.T) {
	t.Parallel()
	require.Contains(t, newLab(t).run(check(t, "wake")), "wake: 2 contexts, 3 functions: ok\n")
}

// Keys of lists of memory, made and filled as libmlx5 and RDMaxcel do it, give access to these
// lists and to nothing else.
func TestMkey(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "mkey")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, append([]string{"--explain"}, mode.flags...)...)
			said := l.run(path)
			require.Contains(t, said, "mkey: 3 layouts, 9 mistakes: ok\n")
			if strings.Contains(said, "a list of 2 GiB: memory bind operation error\n") {
				require.Contains(t, said, "2147483648, which rdma-core before 61 adds up in an int: bind lists below 2 GiB")
			}
			l.works()
		})
	}
}

// One queue pair reaches queue pairs of two other processes by DC, and what it does wrong fails.
func TestDC(t *testing.T) {
	t.Parallel()
	path := check(t, "dc")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			require.Contains(t, l.run(path), "dc: 2 targets, 4 operations, 5 mistakes: ok\n")
			l.works()
		})
	}
	t.Run("InfiniBand", func(t *testing.T) {
		require.Contains(t, newLabAt(t, places()[0], infiniBandFirst...).run(path), "dc: 2 targets, 4 operations, 5 mistakes: ok\n")
	})
}

// A datagram's header leads back to its sender, with every GID, and groups deliver to each of
// their queue pairs.
func TestDatagrams(t *testing.T) {
	t.Parallel()
	path := check(t, "datagram")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			require.Regexp(t, `datagram: Ethernet: \d+ addresses, 2 groups: ok\n`, newLab(t, mode.flags...).run(path))
		})
	}
}

// Device memory holds what is copied and moved to it, and is freed.
func TestDM(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "dm")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			require.Contains(t, l.run(path), "dm: transfers, imports, mistakes: ok\n")
			l.works()
		})
	}
}

// Memory of dma-bufs is reached in both directions, with any addresses.
func TestDMABuf(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "dmabuf")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			require.Regexp(t, `dmabuf: (udmabuf|memfd): transfers, processes, mistakes: ok\n`, l.run(path))
			l.works()
		})
	}
}

// Several processes have a queue pair of type XRC_RECV, which ends with the last of them.
func TestOpenQP(t *testing.T) {
	t.Parallel()
	path := check(t, "xrc")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			require.Contains(t, l.run(path), "xrc: 3 processes, 4 handles, 4 messages: ok\n")
			l.works()
		})
	}
}

// Short data are in CQEs, for which libmlx5 asks, and libmlx5 copies them to memory.
func TestInline(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "inline")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			require.Contains(t, newLab(t, mode.flags...).run(path), "inline: 4 kinds of queue pairs, 2 sizes of entries, 6 operations, 12 lengths: ok\n")
		})
	}
}

// Ioctls that no library would send are answered, and the server keeps running.
func TestMisuse(t *testing.T) {
	t.Parallel()
	path := check(t, "misuse")
	n := 500
	if *whole {
		n = 5000
	}
	l := newLab(t)
	for seed := range 3 {
		require.Contains(t, l.run(path, itoa(seed+1), itoa(n)), fmt.Sprintf("misuse: %d random ioctls: ok\n", n))
	}
	l.flags = append(l.flags, "--devx")
	require.Contains(t, l.run(path, "4", itoa(n)), fmt.Sprintf("misuse: %d random ioctls: ok\n", n))
	l.works()
}
