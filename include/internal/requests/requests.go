// Package requests has one request of each kind that hosts, kernels and C can post, so that tests compare the
// bytes that each of them leaves, and the data that has moved. Only tests, and the programs that they build,
// import this package.
package requests

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

// A Post is a work request for a C program.
type Post struct {
	Opcode, Flags uint8
	Imm, RKey     uint32
	RAddr         uint64
	Swap, Compare uint64
	Data          []byte
	SGE           []string // "addr length lkey"
}

// Line returns the line that the programs read (include/check/request.h).
func (p *Post) Line() string {
	data := hex.EncodeToString(p.Data)
	if data == "" {
		data = "-"
	}
	return fmt.Sprintf("post %d %d %d %d %d %d %d %s %s", p.Opcode, p.Flags, p.Imm, p.RAddr, p.RKey, p.Swap, p.Compare,
		data, strings.Join(p.SGE, " "))
}

// A Request is work to post, for hosts, for kernels and for C.
type Request struct {
	Name string
	Host []nicless.SendWR
	Lane func(t *accel.Thread, q *accel.Queue) // nil if a lane cannot post it
	// Executed by as many lanes as Host has requests; nil if a warp cannot post it.
	Warp func(t *accel.Thread, q *accel.Queue)
	InC  []Post
}

// Memory is registered memory of at least 4096 bytes.
type Memory struct {
	Addr       uint64
	LKey, RKey uint32
}

// SGE returns n bytes at an offset, as a piece of a request.
func (m Memory) SGE(off, n int) nicless.SGE {
	return nicless.SGE{Addr: m.Addr + uint64(off), Length: uint32(n), LKey: m.LKey}
}

// LastID is the ID of the last request.
const LastID = 99

// Received is where in the near memory the receives of the peer are, and Receive how many bytes each has.
const Received, Receive = 2048, 64

// All returns one request of every kind that hosts and C can post, from near memory to far memory. Kernels
// can post most of them. The peer needs 8 receives: see Received.
func All(near, far Memory) []Request {
	nearRef, farRef := accel.Ref{Addr: near.Addr, Key: near.LKey}, accel.Ref{Addr: far.Addr, Key: far.RKey}
	sge := func(off, n int) []nicless.SGE { return []nicless.SGE{near.SGE(off, n)} }
	inC := func(off, n int) []string {
		s := near.SGE(off, n)
		return []string{fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey)}
	}
	at := func(off int) uint64 { return far.Addr + uint64(off) }
	key := far.RKey
	write := func(flags nicless.Flags, from, n, to int) nicless.SendWR {
		wr := nicless.SendWR{Op: nicless.Write, Flags: flags, SGE: sge(from, n)}
		wr.RemoteAddr, wr.RKey = at(to), key
		return wr
	}
	last := write(nicless.Signaled, 8, 8, 8)
	last.ID = LastID
	const signaled, fenced = 0x08, 0x80
	greeting := []byte("hello, far side of the bus: forty-five bytes.")

	list := []Request{
		{
			Name: "WRITE of 8 bytes",
			Host: []nicless.SendWR{write(nicless.Signaled, 0, 8, 0)},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.Put(q, farRef.At(0), nearRef.At(0), 8) },
			Warp: func(t *accel.Thread, q *accel.Queue) { t.PutWarp(q, farRef.At(0), nearRef.At(0), 8) },
			InC:  []Post{{Opcode: 0x08, Flags: signaled, RAddr: at(0), RKey: key, SGE: inC(0, 8)}},
		},
		{
			Name: "inline WRITE of two blocks",
			Host: []nicless.SendWR{{
				Op: nicless.Write, Flags: nicless.Signaled, Data: greeting,
				RemoteAddr: at(64), RKey: key,
			}},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.PutInline(q, farRef.At(64), greeting) },
			InC:  []Post{{Opcode: 0x08, Flags: signaled, RAddr: at(64), RKey: key, Data: greeting}},
		},
		{
			Name: "READ",
			Host: []nicless.SendWR{{
				Op: nicless.Read, Flags: nicless.Signaled, SGE: sge(128, 16),
				RemoteAddr: at(0), RKey: key,
			}},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.Get(q, nearRef.At(128), farRef.At(0), 16) },
			InC:  []Post{{Opcode: 0x10, Flags: signaled, RAddr: at(0), RKey: key, SGE: inC(128, 16)}},
		},
		{
			Name: "SEND",
			Host: []nicless.SendWR{{Op: nicless.Send, Flags: nicless.Signaled, SGE: sge(0, 32)}},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.Send(q, nearRef.At(0), 32) },
			InC:  []Post{{Opcode: 0x0a, Flags: signaled, SGE: inC(0, 32)}},
		},
		{
			Name: "FETCH_ADD",
			Host: []nicless.SendWR{{
				Op: nicless.FetchAdd, Flags: nicless.Signaled, SGE: sge(8, 8),
				RemoteAddr: at(256), RKey: key, SwapAdd: 3,
			}},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.FetchAdd(q, farRef.At(256), 3, nearRef.At(8)) },
			InC: []Post{{
				Opcode: 0x12, Flags: signaled, RAddr: at(256), RKey: key, Swap: 3, SGE: inC(8, 8),
			}},
		},
		{
			Name: "COMPARE_SWAP behind a fence",
			Host: []nicless.SendWR{{
				Op: nicless.CompareSwap, Flags: nicless.Signaled | nicless.Fence, SGE: sge(16, 8),
				RemoteAddr: at(264), RKey: key, SwapAdd: 7, Compare: 0,
			}},
			Lane: func(t *accel.Thread, q *accel.Queue) {
				t.Fence()
				t.CompareSwap(q, farRef.At(264), 0, 7, nearRef.At(16))
			},
			InC: []Post{{
				Opcode: 0x11, Flags: signaled | fenced, RAddr: at(264), RKey: key, Swap: 7, SGE: inC(16, 8),
			}},
		},
		{
			Name: "WRITE_IMM",
			Host: []nicless.SendWR{{
				Op: nicless.WriteImm, SGE: sge(0, 8),
				RemoteAddr: at(8), RKey: key, Imm: 0x01020304,
			}},
			InC: []Post{{Opcode: 0x09, Imm: 0x01020304, RAddr: at(8), RKey: key, SGE: inC(0, 8)}},
		},
		{
			Name: "SEND_IMM of three pieces, solicited",
			Host: []nicless.SendWR{{
				Op: nicless.SendImm, Flags: nicless.Solicited, Imm: 5,
				SGE: []nicless.SGE{near.SGE(0, 8), near.SGE(64, 16), near.SGE(256, 1)},
			}},
			InC: []Post{{
				Opcode: 0x0b, Flags: 0x02, Imm: 5,
				SGE: slices.Concat(inC(0, 8), inC(64, 16), inC(256, 1)),
			}},
		},
		{
			Name: "NOP",
			Host: []nicless.SendWR{{Op: nicless.Nop}},
			InC:  []Post{{Opcode: 0}},
		},
		{Name: "32 WRITEs of 8 bytes", Warp: func(t *accel.Thread, q *accel.Queue) {
			t.PutWarp(q, farRef.At(8*t.Lane()), nearRef.At(8*t.Lane()), 8)
		}},
		{
			Name: "WRITE of 8 bytes at the end",
			Host: []nicless.SendWR{last},
			Lane: func(t *accel.Thread, q *accel.Queue) { t.Put(q, farRef.At(8), nearRef.At(8), 8) },
			Warp: func(t *accel.Thread, q *accel.Queue) { t.PutWarp(q, farRef.At(8), nearRef.At(8), 8) },
			InC:  []Post{{Opcode: 0x08, Flags: signaled, RAddr: at(8), RKey: key, SGE: inC(8, 8)}},
		},
	}
	for i := range list {
		if r := &list[i]; r.Host == nil {
			for k := range accel.WarpSize {
				r.Host = append(r.Host, write(0, 8*k, 8, 8*k))
				r.InC = append(r.InC, Post{Opcode: 0x08, RAddr: at(8 * k), RKey: key, SGE: inC(8*k, 8)})
			}
			r.Host[accel.WarpSize-1].Flags = nicless.Signaled
			r.InC[accel.WarpSize-1].Flags = signaled
		}
	}
	return list
}

// Do does to copies of the memories what the request is to do to them: Near and Far have 4096 bytes. The
// receives get their messages in the order of the requests; received is how many have been used.
func (r *Request) Do(near, far Memory, nearBytes, farBytes []byte, received *int) {
	for i := range r.Host {
		wr := &r.Host[i]
		data := append([]byte{}, wr.Data...)
		for _, s := range wr.SGE {
			data = append(data, nearBytes[s.Addr-near.Addr:][:s.Length]...)
		}
		there := farBytes[max(wr.RemoteAddr, far.Addr)-far.Addr:]
		result := func(b []byte) { copy(nearBytes[wr.SGE[0].Addr-near.Addr:], b) }
		switch wr.Op {
		case nicless.Write, nicless.WriteImm:
			copy(there, data)
		case nicless.Read:
			result(append([]byte{}, there[:wr.SGE[0].Length]...))
		case nicless.Send, nicless.SendImm:
			copy(nearBytes[Received+*received*Receive:], data)
		case nicless.FetchAdd, nicless.CompareSwap:
			was := binary.NativeEndian.Uint64(there)
			result(append([]byte{}, there[:8]...))
			switch {
			case wr.Op == nicless.FetchAdd:
				binary.NativeEndian.PutUint64(there, was+wr.SwapAdd)
			case was == wr.Compare:
				binary.NativeEndian.PutUint64(there, wr.SwapAdd)
			}
		}
		switch wr.Op {
		case nicless.WriteImm, nicless.Send, nicless.SendImm:
			*received++
		}
	}
}
