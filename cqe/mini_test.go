package cqe

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ringOf is a CQ buffer that a device and a poller in one process share.
type ringOf struct {
	slots [][Size]byte
	log   uint
}

func newRing(log uint) *ringOf { return &ringOf{make([][Size]byte, 1<<log), log} }

func (r *ringOf) at(index uint64) *[Size]byte { return &r.slots[Slot(index, r.log)] }

func (r *ringOf) mini(index uint64, entry int) *[MiniSize]byte {
	return (*[MiniSize]byte)(r.at(index)[entry*MiniSize:])
}

// compress writes one session: as many entries from the beginning of cqes as share a title. It
// returns how many these are.
func (r *ringOf) compress(cqes []CQE, index uint64, f MiniFormat) (n int) {
	x := Compress(&cqes[0], index, r.log, f)
	for i := range cqes {
		m, ok := x.Add(&cqes[i])
		if !ok {
			break
		}
		slots, entry := MiniPlace(i)
		m.Put(r.mini(index+uint64(slots), entry))
		n++
	}
	t := x.Title()
	t.Put(r.at(index))
	return n
}

// expand reads back the session whose title is the entry whose number is index.
func (r *ringOf) expand(t require.TestingT, index uint64, f MiniFormat) (cqes []CQE) {
	x, err := Expand(r.at(index), index, r.log, f)
	require.NoError(t, err)
	for i := 0; x.Left() > 0; i++ {
		slots, entry := MiniPlace(i)
		c, ok := x.Next(ParseMini(r.mini(index+uint64(slots), entry)))
		require.True(t, ok)
		cqes = append(cqes, c)
	}
	_, ok := x.Next(Mini{})
	require.False(t, ok, "a session ends")
	return cqes
}

// entries draws completions of one queue. They differ only as those of a session may differ.
func entries(t *rapid.T, index uint64, log uint, f MiniFormat) []CQE {
	op := rapid.SampledFrom([]Opcode{Req, RespSend, RespWriteImm}).Draw(t, "opcode")
	base := CQE{SRQNUIdx: 5, Timestamp: 9, QPN: 0x1234, Counter: rapid.Uint16().Draw(t, "counter")}
	cqes := make([]CQE, rapid.IntRange(2, 1<<log).Draw(t, "n"))
	for i := range cqes {
		c := base
		c.OpOwn = MakeOpOwn(op, FormatPlain, false, Owner(index+uint64(i), log))
		c.ByteCount = rapid.Uint32().Draw(t, "byte_cnt")
		c.Counter += uint16(i)
		switch {
		case op == Req:
			c.Counter, c.WQEOpcode = rapid.Uint16().Draw(t, "wqe"), rapid.Byte().Draw(t, "op")
		case f == MiniHash:
			c.RSSHash = rapid.Uint32().Draw(t, "hash")
		case f == MiniChecksum:
			c.Checksum = rapid.Uint16().Draw(t, "checksum")
		case f == MiniChecksumStride:
			c.Checksum, c.Counter = rapid.Uint16().Draw(t, "checksum"), rapid.Uint16().Draw(t, "stride")
		case f == MiniHeadersStride:
			c.L4HdrType, c.Counter = rapid.Byte().Draw(t, "headers"), rapid.Uint16().Draw(t, "stride")
		case f == MiniFlowTagStride:
			c.Counter = rapid.Uint16().Draw(t, "stride")
		}
		cqes[i] = c
	}
	return cqes
}

func TestCompressThenExpand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.UintRange(1, 6).Draw(t, "log")
		index := rapid.Uint64Range(0, 1<<10).Draw(t, "index")
		f := MiniFormat(rapid.IntRange(0, 4).Draw(t, "format"))
		want := entries(t, index, log, f)
		r := newRing(log)
		require.Equal(t, len(want), r.compress(want, index, f))
		require.Equal(t, want, r.expand(t, index, f))
	})
}

// The newer layout: a title that is an entry like others, then blocks.
func TestBlocksThenExpand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const log = 6
		index := rapid.Uint64Range(0, 1<<10).Draw(t, "index")
		f := MiniFormat(rapid.IntRange(0, 4).Draw(t, "format"))
		want := entries(t, index, log, f)
		title, at := want[0], index+1
		for rest := want[1:]; len(rest) > 0; {
			n := min(len(rest), BlockMinis)
			blk := Block{N: n, Iteration: Iteration(at, log), Low: 1}
			w := CompressAfter(&title, at, log, f)
			for i := range n {
				m, ok := w.Add(&rest[i])
				require.True(t, ok)
				blk.Minis[i] = m
			}
			var b, again [Size]byte
			blk.Put(&b)
			read, err := ParseBlock(&b)
			require.NoError(t, err)
			require.Equal(t, blk, read)
			read.Put(&again)
			require.Equal(t, b, again)

			x := read.Expand(&title, at, log, f)
			require.Equal(t, n, x.Left())
			for i := range n {
				c, ok := x.Next(read.Minis[i])
				require.True(t, ok)
				require.Equal(t, rest[i], c)
			}
			title, at, rest = rest[n-1], at+uint64(n), rest[n:]
		}
	})
}

// The bytes of a session of ten requester entries, and their places in the ring.
func TestSessionLayout(t *testing.T) {
	r := newRing(4)
	cqes := make([]CQE, 10)
	for i := range cqes {
		cqes[i] = CQE{QPN: 0x1234, Counter: 0x100 + uint16(i), WQEOpcode: opRDMARead, ByteCount: 64,
			OpOwn: MakeOpOwn(Req, FormatPlain, false, Owner(14+uint64(i), 4))}
	}
	require.Equal(t, 10, r.compress(cqes, 14, 0))
	title := r.slots[14]
	require.Equal(t, []byte{0, 0, 0, 10}, title[OffByteCount:OffByteCount+4], "entries in the session")
	require.Equal(t, []byte{0x01, 0x00, 0, 0x0c}, title[OffCounter:], "first entry, format 3")
	require.Equal(t, []byte{0x01, 0x00, opRDMARead, 0, 0, 0, 0, 64}, r.slots[15][:8], "mini 0: the slot after the title")
	require.Equal(t, []byte{0x01, 0x07, opRDMARead, 0, 0, 0, 0, 64}, r.slots[15][56:], "mini 7")
	require.Equal(t, []byte{0x01, 0x08, opRDMARead, 0, 0, 0, 0, 64}, r.slots[6][:8], "mini 8: eight slots after the title")
	got := r.expand(t, 14, 0)
	require.EqualValues(t, 0, got[1].OpOwn.Owner())
	require.EqualValues(t, 1, got[2].OpOwn.Owner(), "the ring's end lies inside the session")
}

func TestWhatASessionCannotSay(t *testing.T) {
	first := CQE{QPN: 1, ByteCount: 8, Counter: 3, OpOwn: MakeOpOwn(RespSend, FormatPlain, false, 0)}
	for name, change := range map[string]func(*CQE){
		"another queue":     func(c *CQE) { c.QPN = 2 },
		"solicited":         func(c *CQE) { c.OpOwn |= 2 },
		"inline data":       func(c *CQE) { c.OpOwn |= OpOwn(FormatInline32) << 2 },
		"another immediate": func(c *CQE) { c.Imm = 7 },
		"an error":          func(c *CQE) { c.OpOwn = MakeOpOwn(RespErr, FormatPlain, false, 0) },
		"a counter ahead":   func(c *CQE) { c.Counter += 2 },
		"another lap":       func(c *CQE) { c.OpOwn ^= 1 },
		"a full checksum":   func(c *CQE) { c.Checksum = 5 },
	} {
		x := Compress(&first, 0, 4, MiniHash)
		_, ok := x.Add(&first)
		require.True(t, ok, name)
		next := first
		next.Counter++
		_, ok = x.Add(&next)
		require.True(t, ok, name)
		bad := first
		bad.Counter += 2
		change(&bad)
		_, ok = x.Add(&bad)
		require.False(t, ok, name)
		title := x.Title()
		require.EqualValues(t, 2, title.ByteCount, "%s: nothing was added", name)
	}
}

func TestNotASession(t *testing.T) {
	for _, c := range []struct {
		o    OpOwn
		n    uint32
		want string
	}{
		{MakeOpOwn(Req, FormatPlain, false, 0), 4, "cqe: op_own 0x00 is not a title's; format 3 with opcode 0..4 is"},
		{MakeOpOwn(ReqErr, FormatCompressed, false, 1), 4, "cqe: op_own 0xdd is not a title's; format 3 with opcode 0..4 is"},
		{MakeOpOwn(Req, FormatCompressed, false, 0), 0, "cqe: session of 0 entries, a ring of 16 holds 1..16"},
		{MakeOpOwn(Req, FormatCompressed, false, 0), 17, "cqe: session of 17 entries, a ring of 16 holds 1..16"},
	} {
		var b [Size]byte
		(&CQE{OpOwn: c.o, ByteCount: c.n}).Put(&b)
		_, err := Expand(&b, 0, 4, MiniHash)
		require.EqualError(t, err, c.want)
	}
	var b [Size]byte
	b[OffOpOwn] = 0x7c
	_, err := ParseBlock(&b)
	require.EqualError(t, err, "cqe: op_own 0x7c is not a block's; format 3 with 1..7 minis is")
	require.Panics(t, func() { (&Block{N: 8}).Put(&b) })
	require.Panics(t, func() { (&Block{}).Put(&b) })
}

func TestCompressionAllocatesNothing(t *testing.T) {
	r := newRing(4)
	cqes := make([]CQE, 12)
	for i := range cqes {
		cqes[i] = CQE{QPN: 1, Counter: uint16(i), OpOwn: MakeOpOwn(RespSend, FormatPlain, false, 0)}
	}
	var n int
	require.Zero(t, testing.AllocsPerRun(20, func() {
		r.compress(cqes, 0, MiniHash)
		x, _ := Expand(r.at(0), 0, 4, MiniHash)
		for x.Left() > 0 {
			x.Next(Mini{})
			n++
		}
	}))
	require.Positive(t, n)
}
