package packetring

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pair returns both ends of a ring, and its memory.
func pair(t testing.TB, g Geometry) (*Producer, *Consumer, []byte) {
	t.Helper()
	r, err := shm.Heap(g.Size())
	require.NoError(t, err)
	p, err := NewProducer(r.Bytes(), g, nil)
	require.NoError(t, err)
	c, err := NewConsumer(r.Bytes(), g, nil)
	require.NoError(t, err)
	return p, c, r.Bytes()
}

// send sends a packet whose bytes follow from its number, and reports whether there was room. Some of
// those that fit into a line are sent as lines.
func send(p *Producer, number uint64, head, n int) bool {
	if head+n <= LineRoom && number%3 > 0 {
		return sendLine(p, number, head, n)
	}
	h, payload, ok := p.Reserve(head, n)
	if !ok {
		return false
	}
	fill(h, number)
	fill(payload, number+1)
	p.Publish(uint32(number))
	return true
}

func sendLine(p *Producer, number uint64, head, n int) bool {
	var b [LineRoom]byte
	fill(b[:head], number)
	fill(b[head:][:n], number+1)
	size := uint32(head<<16 | n)
	if number%3 == 1 {
		var w [LineRoom / 8]uint64
		for i := range w {
			w[i] = binary.BigEndian.Uint64(b[8*i:])
		}
		return p.PublishLine(uint32(number), size, w[0], w[1], w[2], w[3], w[4], w[5])
	}
	list := p.Lines(1)
	if len(list) == 0 {
		return false
	}
	copy(list[0][HeadSize:], b[:])
	p.PublishLines(uint32(number), size, 1)
	return true
}

// take is Next, by Peek and Skip if the packet is a line and odd is true.
func take(c *Consumer, p *Packet, odd bool) (ok bool, err error) {
	b, size, _ := c.Peek()
	head, n := int(size>>16), int(size&0xffff)
	if b == nil || !odd || head+n > LineRoom {
		return c.Next(p)
	}
	p.Path, p.N, p.Payload = uint32(b.Word(1)>>32), head, append([]byte(nil), b[HeadSize+head:][:n]...)
	copy(p.Head[:], b[HeadSize:][:head])
	c.Skip()
	return true, nil
}

// Packets that are sent together arrive in order, also where the ring begins anew.
func TestLines(t *testing.T) {
	p, c, _ := pair(t, Geometry{Slots: 32})
	var k Packet
	number := byte(0)
	for round := range 100 {
		want := 1 + round%(MostLines+2)
		list := p.Lines(want)
		require.NotEmpty(t, list)
		require.LessOrEqual(t, len(list), min(want, MostLines))
		for i := range list {
			list[i] = shm.Block{HeadSize: number + byte(i), 63: 7}
		}
		p.PublishLines(5, 40<<16|8, len(list))
		for i := range list {
			ok, err := take(c, &k, i%2 == 0)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, []byte{number + byte(i), 7}, []byte{k.Head[0], k.Payload[7]})
			require.Equal(t, uint32(5), k.Path)
		}
		number += byte(len(list))
		c.Free()
		b, _, _ := c.Peek()
		require.Nil(t, b)
	}
	require.Len(t, p.Lines(0), 0)
	for p.Free() > 0 {
		p.PublishLines(0, 0, len(p.Lines(MostLines)))
	}
	require.Equal(t, uint64(32), p.Sent()-c.Received())
	require.Empty(t, p.Lines(3), "the ring is full")
}

func fill(b []byte, number uint64) {
	for i := range b {
		b[i] = byte(number*31 + uint64(i))
	}
}

// expect checks that a packet has the bytes that send gives the packet with that number.
func expect(t testing.TB, p *Packet, number uint64, head, n int) {
	want := make([]byte, max(head, n))
	fill(want[:head], number)
	require.Equal(t, uint32(number), p.Path)
	require.True(t, bytes.Equal(want[:head], p.Head[:p.N]), "headers of packet %d", number)
	fill(want[:n], number+1)
	require.True(t, bytes.Equal(want[:n], p.Payload), "payload of packet %d", number)
}

// Packets of all sizes come out as they went in, in order, whatever the sides do between.
func TestPacketsArriveInOrder(t *testing.T) {
	type size struct{ head, n int }
	for _, g := range []Geometry{{Slots: 2}, {Slots: 8, Data: 4096}, {Slots: 64, Data: 64 << 10}, {Slots: 4, Data: 1 << 10}} {
		rng := rand.New(rand.NewPCG(1, uint64(g.Data)))
		p, c, _ := pair(t, g)
		var sent []size
		var packet Packet
		for taken := 0; taken < 20_000; {
			if rng.IntN(2) == 0 {
				s := size{rng.IntN(MaxHead + 1), 0}
				most := g.Data / 2
				switch {
				case most == 0 || rng.IntN(3) == 0:
					s.n = rng.IntN(Inline - s.head + 1)
				default:
					s.n = rng.IntN(most + 1)
				}
				if send(p, uint64(len(sent)), s.head, s.n) {
					sent = append(sent, s)
				}
			} else if ok, err := take(c, &packet, taken%2 == 0); ok {
				require.NoError(t, err)
				expect(t, &packet, uint64(taken), sent[taken].head, sent[taken].n)
				taken++
				if rng.IntN(4) == 0 {
					c.Free()
				}
			} else {
				require.NoError(t, err)
				c.Free()
				require.Equal(t, taken, len(sent), "a packet that was sent is there")
			}
		}
	}
}

// A ring that is full takes no more until the consumer frees a packet.
func TestFullRing(t *testing.T) {
	p, c, _ := pair(t, Geometry{Slots: 4, Data: 256})
	for i := range 4 {
		require.True(t, send(p, uint64(i), 8, 8))
	}
	require.False(t, send(p, 4, 8, 8))
	var packet Packet
	ok, err := c.Next(&packet)
	require.NoError(t, err)
	require.True(t, ok)
	require.False(t, send(p, 4, 8, 8), "the packet is still in use")
	c.Free()
	require.True(t, send(p, 4, 8, 8))

	p, c, _ = pair(t, Geometry{Slots: 8, Data: 256})
	require.True(t, send(p, 0, 48, 128))
	require.True(t, send(p, 1, 48, 128))
	require.False(t, send(p, 2, 48, 128), "no data area is left")
	require.True(t, send(p, 2, 48, 64), "a slot is")
	ok, _ = c.Next(&packet)
	require.True(t, ok)
	c.Free()
	require.True(t, send(p, 3, 48, 128))
}

// The bytes of a payload are never taken for a packet, even if they look like one.
func TestPayloadIsNoPacket(t *testing.T) {
	p, c, _ := pair(t, Geometry{Slots: 4})
	var packet Packet
	for n := range uint64(64) {
		h, payload, ok := p.Reserve(0, Inline)
		require.True(t, ok)
		require.Empty(t, h)
		for i := 0; i < Inline; i += 8 {
			binary.BigEndian.PutUint64(payload[i:], (n+5)<<32|8<<16|8)
		}
		p.Publish(0)
		ok, err := c.Next(&packet)
		require.NoError(t, err)
		require.True(t, ok)
		c.Free()
		ok, err = c.Next(&packet)
		require.NoError(t, err)
		require.False(t, ok)
	}
}

// A consumer survives every value of the words of a slot: it takes a packet inside the ring's
// memory, or finds none, or says what is wrong.
func TestHostileProducer(t *testing.T) {
	g := Geometry{Slots: 4, Data: 1024}
	for _, c := range []struct {
		word, second uint64
		err          string
	}{
		{word: 1<<32 | 49<<16, second: inSlot, err: "headers of 49 bytes; at most 48"},
		{word: 1<<32 | 48<<16 | 65, second: inSlot, err: "headers and payload of 113 bytes in a slot; at most 112"},
		{word: 1<<32 | 12<<16 | 1, second: 16, err: "payload of 1 bytes at byte 1024 of a data area of 1024"},
		{word: 1<<32 | 12<<16 | 0xffff, second: 0, err: "payload of 65535 bytes"},
		{word: 1<<32 | 12<<16 | 64, second: inSlot - 1, err: "payload of 64 bytes at byte 274877906816"},
	} {
		_, consumer, mem := pair(t, g)
		binary.BigEndian.PutUint64(mem[slotsAt+8:], c.second)
		binary.BigEndian.PutUint64(mem[slotsAt:], c.word)
		var packet Packet
		ok, err := consumer.Next(&packet)
		assert.False(t, ok)
		require.ErrorIs(t, err, ErrCorrupt)
		assert.ErrorContains(t, err, c.err)
	}
}

// A producer ignores a consumer's count that cannot be right.
func TestHostileConsumer(t *testing.T) {
	for _, count := range []uint64{5, 1 << 40, ^uint64(0)} {
		p, _, mem := pair(t, Geometry{Slots: 4})
		for i := range 4 {
			require.True(t, send(p, uint64(i), 8, 8))
		}
		shm.Word64At(mem, ConsumerAt).Publish(count)
		assert.Zero(t, p.Free())
		shm.Word64At(mem, ConsumerAt).Publish(1)
		assert.Equal(t, 1, p.Free())
		shm.Word64At(mem, ConsumerAt).Publish(0)
		require.True(t, send(p, 4, 8, 8))
		assert.Zero(t, p.Free(), "a count that goes back frees nothing")
	}
}

func TestGeometry(t *testing.T) {
	for _, g := range []Geometry{{}, {Slots: 1}, {Slots: 3}, {Slots: 1 << 17}, {Slots: 4, Data: 1}, {Slots: 4, Data: -64}, {Slots: 4, Data: 1<<32 + 64}} {
		assert.ErrorIs(t, g.Check(), ErrGeometry, "%+v", g)
	}
	_, err := NewProducer(make([]byte, 100), Geometry{Slots: 4}, nil)
	assert.ErrorContains(t, err, "100 bytes of memory; 768 are needed")
}

// Producer and consumer run at the same time.
func TestTwoThreads(t *testing.T) {
	const packets = 100_000
	p, c, _ := pair(t, Geometry{Slots: 16, Data: 8 << 10})
	sizes := []int{0, 8, 64, 65, 200, 1000, 4096}
	go func() {
		for n := uint64(0); n < packets; {
			if send(p, n, 28, sizes[n%uint64(len(sizes))]) {
				n++
			} else {
				runtime.Gosched()
			}
		}
	}()
	var packet Packet
	for n := uint64(0); n < packets; {
		ok, err := c.Next(&packet)
		require.NoError(t, err)
		if !ok {
			c.Free()
			runtime.Gosched()
			continue
		}
		expect(t, &packet, n, 28, sizes[n%uint64(len(sizes))])
		n++
	}
}

func TestNoAllocation(t *testing.T) {
	p, c, _ := pair(t, Geometry{Slots: 16, Data: 8 << 10})
	var packet Packet
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		send(p, 1, 28, 8)
		send(p, 2, 28, 1000)
		for {
			if ok, _ := c.Next(&packet); !ok {
				break
			}
		}
		c.Free()
	}))
}

func BenchmarkPacket(b *testing.B) {
	p, c, _ := pair(b, Geometry{Slots: 256, Data: 256 << 10})
	var packet Packet
	for b.Loop() {
		_, _, _ = p.Reserve(28, 8)
		p.Publish(0)
		if ok, _ := c.Next(&packet); !ok {
			b.Fatal("no packet")
		}
		if packet.Path == 0 && c.next&63 == 0 {
			c.Free()
		}
	}
}
