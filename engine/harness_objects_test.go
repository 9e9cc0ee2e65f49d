package engine

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A srqEnd is a shared receive queue. The test writes the links of its entries.
type srqEnd struct {
	h      *host
	num    uint32
	ring   []byte
	rec    []byte
	stride int
	posted uint16
	s      *object.SRQ // the device's view of the queue
}

// srq makes a shared receive queue. It has 8 entries with room for three data segments each,
// unless m says otherwise. Each entry is linked to the next.
func (h *host) srq(m control.SRQ) *srqEnd {
	h.Helper()
	if m.LogSize == 0 {
		m.LogSize = 3
	}
	if m.LogStride == 0 {
		m.LogStride = 6
	}
	if m.PDN == 0 {
		m.PDN = h.pd
	}
	s := &srqEnd{h: h, stride: 1 << m.LogStride}
	s.ring, m.Ring = h.take(1 << (m.LogSize + m.LogStride))
	s.rec, m.DBRec = h.take(4)
	var ans control.SRQN
	h.call(control.OpCreateSRQ, &m, &ans)
	s.num, s.s = ans.SRQN, h.e.SRQs[ans.SRQN]
	for i := range uint16(1) << m.LogSize {
		s.link(i, i+1)
	}
	return s
}

func (s *srqEnd) link(index, next uint16) {
	wqe.SRQNext{Next: next}.Put((*[wqe.SRQNextSize]byte)(s.ring[int(index)*s.stride:]))
}

// put writes the list of an entry.
func (s *srqEnd) put(index uint16, list ...wqe.Data) {
	s.h.Helper()
	require.True(s.h, wqe.PutRecv(s.ring[int(index)*s.stride+wqe.SRQNextSize:][:s.stride-wqe.SRQNextSize], list))
}

// post announces n more entries.
func (s *srqEnd) post(n int) {
	s.posted += uint16(n)
	shm.BE32At(s.rec, 0).Publish(uint32(s.posted))
}

// on makes a queue pair that receives from s.
func (s *srqEnd) on(transport uint8, c *poller) *end {
	s.h.Helper()
	return s.h.qp(control.QP{Type: transport, NoReceive: 1, SRQN: s.num}, c, c)
}

// events opens the host's event descriptor. It returns a function that returns the next event,
// or nil if there is none.
func (h *host) events() func() *control.Event {
	h.Helper()
	_, reply, err := h.c.Request(control.OpOpenEvents, nil, object.RequestMemory{})
	require.NoError(h, err)
	h.Cleanup(func() { _ = reply.Events.Close() })
	conn, err := reply.Events.SyscallConn()
	require.NoError(h, err)
	return func() *control.Event {
		h.Helper()
		var b [control.MaxMessage]byte
		n := 0
		_ = conn.Control(func(fd uintptr) { n, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT) })
		if n <= 0 {
			return nil
		}
		head, payload, err := control.ParseHeader(b[:n])
		require.NoError(h, err)
		ev := new(control.Event)
		require.NoError(h, control.Parse(head.Op, payload, ev))
		return ev
	}
}

// A happening is the kind and the number of an event.
type happening struct {
	kind   control.EventKind
	number uint32
}

// happened returns the events that have been sent, except explanations.
func happened(next func() *control.Event) (list []happening) {
	for ev := next(); ev != nil; ev = next() {
		if ev.Kind != control.EventExplanation {
			list = append(list, happening{ev.Kind, ev.Number})
		}
	}
	return list
}

// window makes a memory window.
func (h *host) window(kind uint8) uint32 {
	h.Helper()
	var ans control.Key
	h.call(control.OpAllocMW, &control.MW{PDN: h.pd, Kind: kind}, &ans)
	return ans.Key
}

// mkey makes a key for a list.
func (h *host) mkey(entries int) uint32 {
	h.Helper()
	var ans control.Key
	h.call(control.OpCreateMkey, &control.Mkey{PDN: h.pd, Entries: uint32(entries)}, &ans)
	return ans.Key
}

func (h *host) dereg(key uint32) {
	h.Helper()
	h.call(control.OpDeregMR, &control.Key{Key: key}, &control.Empty{})
}

// umr is the control segment of a UMR on a key.
func umr(key uint32) wqe.Ctrl { return wqe.Ctrl{Opcode: wqe.OpUMR, Flags: wqe.CEAlways, Imm: key} }

// These are rights of mkey contexts.
const (
	mkeyRead   = wqe.AccessRemoteRead
	mkeyWrite  = wqe.AccessRemoteWrite | wqe.AccessLocalWrite
	mkeyAtomic = wqe.AccessAtomic
	mkeyAll    = mkeyRead | mkeyWrite | mkeyAtomic

	maskRights = wqe.MaskLocalWrite | wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic
)

// bind returns what rdma-core posts after umr(rkey) to bind a window to n bytes of k. If n is
// 0, the window is closed. tag is the new variant.
func (p *end) bind(kind uint8, tag uint8, k *key, off, n int, access uint8) []any {
	c := wqe.UMRCtrl{Flags: wqe.UMRInline | wqe.UMRTranslationOffset, MkeyMask: wqe.MaskFree | wqe.MaskMkey}
	m := wqe.MkeyContext{QPNMkey: 0xffffff00 | uint32(tag)}
	if kind == 2 {
		c.MkeyMask |= wqe.MaskQPN
	}
	if n == 0 {
		c.Flags |= wqe.UMRCheckQPN
		m.Free = wqe.MkeyFree
		return []any{c, m}
	}
	if kind == 2 {
		c.Flags |= wqe.UMRCheckFree
		m.QPNMkey = p.num<<8 | uint32(tag)
	}
	c.MkeyMask |= wqe.MaskLen | wqe.MaskStartAddr | maskRights
	c.KLMOctowords = 4
	m.Access, m.StartAddr, m.Len = access, k.addr+uint64(off), uint64(n)
	return []any{c, m, wqe.KLM{ByteCount: uint32(n), MKey: k.key, Addr: k.addr + uint64(off)}, pad{}}
}

// fill returns what rdma-core posts after umr(key) to fill a list key.
func fill(key uint32, access uint8, size int, entries ...wqe.KLM) []any {
	c := wqe.UMRCtrl{Flags: wqe.UMRInline, KLMOctowords: uint16(len(entries)+3) &^ 3,
		MkeyMask: wqe.MaskFree | wqe.MaskMkey | wqe.MaskLen | maskRights}
	m := wqe.MkeyContext{QPNMkey: 0xffffff00 | key&0xff, Access: access, Len: uint64(size)}
	segments := []any{c, m}
	for _, e := range entries {
		segments = append(segments, e)
	}
	return append(segments, pad{})
}

// interleaved returns what rdma-core posts after umr(key) for a repeating list.
func interleaved(key uint32, access uint8, size int, rounds uint32, entries ...wqe.RepeatEntry) []any {
	c := wqe.UMRCtrl{Flags: wqe.UMRInline, KLMOctowords: uint16(1+len(entries)+3) &^ 3,
		MkeyMask: wqe.MaskFree | wqe.MaskMkey | wqe.MaskLen | maskRights}
	m := wqe.MkeyContext{QPNMkey: 0xffffff00 | key&0xff, Access: access, Len: uint64(size)}
	per := uint32(0)
	for _, e := range entries {
		per += uint32(e.ByteCount)
	}
	segments := []any{c, m, wqe.RepeatBlock{ByteCount: per, Op: wqe.RepeatOp, RepeatCount: rounds, NumEntries: uint16(len(entries))}}
	for _, e := range entries {
		segments = append(segments, e)
	}
	return append(segments, pad{})
}

// klm returns the entry of a list for n bytes of k.
func (k *key) klm(off, n int) wqe.KLM {
	return wqe.KLM{ByteCount: uint32(n), MKey: k.key, Addr: k.addr + uint64(off)}
}

// good requires that p has exactly one completion and that it is a success.
func (p *end) good() {
	p.h.Helper()
	w := p.scq.one()
	require.Equal(p.h, unharmed, w.Syndrome)
}
