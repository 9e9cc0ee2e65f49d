//go:build linux && (amd64 || arm64)

package ucx

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// The tests of this file need no UCX: they compare carrier/ring.c with package packetring.

func ringProgram(t *testing.T, args ...string) *exec.Cmd {
	ring, _, _ := ucxtest.Checks(t)
	return exec.Command(ring, args...)
}

func TestConstantsOfC(t *testing.T) {
	out, err := ringProgram(t, "constants").Output()
	require.NoError(t, err)
	g := packetring.Geometry{Slots: 2}
	require.Equal(t, fmt.Sprintln(packetring.SlotSize, packetring.HeadSize, packetring.MaxHead, packetring.MaxPayload, packetring.Inline, g.Size()-2*packetring.SlotSize,
		128, 64, uint32(1<<32-1), asleepAt, engineAsleepAt, ringsAt, pathSlots, mostConns, maxWorker, maxDoors, maxTickets, maxMessage), string(out))
	require.LessOrEqual(t, mostPeers, pathSlots/2)
}

// Go is the producer, C the consumer of one ring; and the other way round of the other.
func TestRingsBetweenGoAndC(t *testing.T) {
	g := packetring.Geometry{Slots: 32, Data: 128 << 10}
	m, err := newMemory(g)
	require.NoError(t, err)
	defer m.close()
	const packets = 5000
	c := ringProgram(t, "echo", strconv.Itoa(g.Slots), strconv.Itoa(g.Data), strconv.Itoa(packets))
	c.ExtraFiles = []*os.File{m.region.File()}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	payload := func(n int) []byte {
		size := []int{0, 1, 64, 100, 101, 4096, 60000}[n%7]
		return bytes.Repeat([]byte{byte(n), byte(n >> 8), 7}, size/3+1)[:size]
	}
	sent := 0
	var p packetring.Packet
	for got := 0; got < packets; {
		if sent < packets {
			head := bytes.Repeat([]byte{byte(sent)}, sent%(packetring.MaxHead+1))
			b := payload(sent)
			if h, to, ok := m.toProcess.Reserve(len(head), len(b)); ok {
				copy(h, head)
				copy(to, b)
				m.toProcess.Publish(uint32(sent))
				sent++
			}
		}
		ok, err := m.fromProcess.Next(&p)
		require.NoError(t, err)
		if !ok {
			runtime.Gosched()
			continue
		}
		if p.Path != ^uint32(got) || p.N != got%(packetring.MaxHead+1) || !bytes.Equal(p.Head[:p.N], bytes.Repeat([]byte{byte(got)}, p.N)) || !bytes.Equal(p.Payload, payload(got)) {
			require.Fail(t, "a packet is not what was sent", "%d: %+v", got, p)
		}
		got++
		if got%5 == 0 {
			m.fromProcess.Free()
		}
	}
	m.fromProcess.Free()
	require.NoError(t, c.Wait())
}

// C and Go check the same slots in the same way.
func TestJudgingSlots(t *testing.T) {
	g := packetring.Geometry{Slots: 8, Data: 4096}
	const slots = 5000
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(v ...uint64) uint64 { return v[rng.IntN(len(v))] }
	region, err := shm.Heap(g.Size())
	require.NoError(t, err)
	mem := region.Bytes()
	var all, want bytes.Buffer
	for range slots {
		var slot [packetring.SlotSize]byte
		head, length := pick(0, 12, 48, 49, 255, rng.Uint64N(256)), pick(0, 64, 100, 112, 113, 4096, 65535, rng.Uint64N(1<<16))
		place := pick(0, 1, 63, 64, 1<<32-1, 1<<32-2, rng.Uint64N(1<<32))
		be.PutUint64(slot[0:], pick(1, 1, 1, 1, 2, 0)<<32|rng.Uint64N(256)<<24|head<<16|length)
		be.PutUint64(slot[8:], rng.Uint64()<<32|place)
		all.Write(slot[:])
		c, err := packetring.NewConsumer(mem, g, nil)
		require.NoError(t, err)
		copy(mem[256:], slot[:])
		var p packetring.Packet
		ok, err := c.Next(&p)
		switch {
		case err != nil:
			fmt.Fprintln(&want, "corrupt")
		case !ok:
			fmt.Fprintln(&want, "none")
		default:
			at := packetring.HeadSize + p.N
			if place != 1<<32-1 {
				at = g.Slots*packetring.SlotSize + int(place)*64
			}
			fmt.Fprintln(&want, "packet", p.Path, p.N, len(p.Payload), at)
		}
	}
	cmd := ringProgram(t, "judge", strconv.Itoa(g.Slots), strconv.Itoa(g.Data))
	cmd.Stdin = &all
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, want.String(), string(out))
	require.Contains(t, want.String(), "corrupt")
	require.Contains(t, want.String(), "packet")
}
