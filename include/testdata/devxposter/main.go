// devxposter posts the requests of package requests to a queue pair that firmware commands (DEVX) have made:
//
//	nicless run --devx -- devxposter lane|warp|c MODE
//
// MODE is send_dbr_mode: with 1 and 2, registers start the queue, which has no record then. lane and warp are kernels of an emulated accelerator (package accel); c posts by the C headers. It reads one
// command per line, and answers each with one line:
//
//	(at first)   QPN, blocks of the ring, and of near and far memory: address, lkey, rkey
//	do I         posts request I and waits for it. Ring, record and the two halves of the register, in hexadecimal;
//	             "none" if the poster cannot post this request
//	laps ROUNDS  puts 8 bytes to each of 256 words, that many times, from many lanes or threads at once: "done"
//	end          compares the memories with what the requests were to do, and destroys everything: "ok"
package main

// #cgo CFLAGS: -std=gnu99 -D_GNU_SOURCE -I${SRCDIR}/../.. -I${SRCDIR}/../../../verbs/check
// #cgo LDFLAGS: -lmlx5 -libverbs
// #include "queues.h"
// #include <stdlib.h>
import "C"

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/include/internal/requests"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "devxposter: error:", err)
		os.Exit(1)
	}
}

// A program has the queue pair, and copies of the memories as they should be.
type program struct {
	q         C.struct_queues
	near, far requests.Memory
	nearBytes []byte
	farBytes  []byte
	received  int
	list      []requests.Request
	post      func(*requests.Request) (posted bool, err error)
	laps      func(rounds int) error
}

// lapWords is how many words of far memory many lanes put to.
const lapWords = 256

func run(how, mode string) error {
	p := &program{}
	// A collapsed queue for the posters that can use one: C's only kind for many pollers, and one of accel's.
	collapsed := how != "lane"
	flag := C.int(0)
	if collapsed {
		flag = 1
	}
	m, err := strconv.Atoi(mode)
	if err != nil {
		return err
	}
	C.queues_make(&p.q, flag, C.int(m), requests.Received, requests.Receive)
	p.near, p.far = memory(p.q.near), memory(p.q.far)
	for i, b := range p.live(p.q.near)[:requests.Received] {
		p.live(p.q.near)[i] = b + byte(7*i+3)
	}
	p.nearBytes, p.farBytes = bytes.Clone(p.live(p.q.near)), bytes.Clone(p.live(p.q.far))
	p.list = requests.All(p.near, p.far)
	switch how {
	case "c":
		p.post = postInC
		p.laps = func(rounds int) error {
			if code := C.queues_laps(&p.q.far, lapWords, C.uint32_t(rounds)); code != 0 {
				return fmt.Errorf("%d", code)
			}
			return nil
		}
	case "lane", "warp":
		if err := p.accelerate(how, collapsed); err != nil {
			return err
		}
	default:
		return fmt.Errorf("poster %q: lane, warp and c are possible", how)
	}
	fmt.Println(p.q.qpn, 1<<C.LOG_BLOCKS, p.near.Addr, p.near.LKey, p.near.RKey, p.far.Addr, p.far.LKey, p.far.RKey)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if words[0] == "end" {
			return p.end()
		}
		i, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		if words[0] == "laps" {
			if err := p.around(i); err != nil {
				return fmt.Errorf("laps: %w", err)
			}
			continue
		}
		if err := p.do(&p.list[i]); err != nil {
			return fmt.Errorf("%s: %w", p.list[i].Name, err)
		}
	}
	return in.Err()
}

func memory(m C.struct_memory) requests.Memory {
	return requests.Memory{Addr: uint64(uintptr(unsafe.Pointer(m.at))), LKey: uint32(m.lkey), RKey: uint32(m.rkey)}
}

func (p *program) live(m C.struct_memory) []byte { return span(m.at, C.MEMORY) }

func span(at *C.uint8_t, n int) []byte { return unsafe.Slice((*byte)(at), n) }

// accelerate makes an emulated accelerator whose kernels post to the queue pair, as QP.Export does for queue
// pairs of package nicless.
func (p *program) accelerate(how string, collapsed bool) error {
	send, err := hostpath.NewSharedSQ(hostpath.SQConfig{
		Ring: span(p.q.ring, 64<<C.LOG_BLOCKS), Record: span(p.q.record, 8), Register: span(p.q.reg, 512),
		QPN: uint32(p.q.qpn), Transport: hostpath.RC, MaxInline: 64, MaxSGE: 4,
	})
	if err != nil {
		return err
	}
	table := &hostpath.Table{}
	index, err := table.Alloc()
	if err != nil {
		return err
	}
	table.Set(index, &hostpath.QP{SQ: &send.SendRing, QPN: uint32(p.q.qpn)}) // its user index is 0, too
	entries := 1 << C.LOG_ENTRIES
	if collapsed {
		entries = 1
	}
	cq, err := hostpath.NewCQ(hostpath.CQConfig{
		Ring: span(p.q.cq_ring, 64*entries), EntrySize: 64, Record: span(p.q.cq_record, 8), CQN: uint32(p.q.cqn),
		Collapsed: collapsed, Table: table,
	})
	if err != nil {
		return err
	}
	sink := p.near.SGE(C.MEMORY-8, 8)
	nothing := func() {} // a device wakes by itself for programs of verbs
	never := func() error { return nil }
	queue, err := accel.NewQueue(accel.Export{Send: send, SendCQ: cq, Sink: sink, Err: never, Wake: nothing})
	if err != nil {
		return err
	}
	device, err := accel.New(accel.Config{})
	if err != nil {
		return err
	}
	stream, err := device.NewStream()
	if err != nil {
		return err
	}
	// run runs a kernel, and waits until everything is executed.
	run := func(grid accel.Grid, k accel.Kernel) error {
		var failed error
		wait := func(t *accel.Thread) { failed = t.Quiet(queue) }
		err := errors.Join(stream.Launch(grid, k), stream.Launch(accel.Grid{Blocks: 1, Threads: 1}, wait), stream.Sync())
		return errors.Join(err, failed)
	}
	p.laps = func(rounds int) error {
		far := accel.Ref{Addr: p.far.Addr, Key: p.far.RKey}
		return run(accel.Grid{Blocks: lapWords / 64, Threads: 64}, func(t *accel.Thread) {
			var word [8]byte
			for r := range rounds {
				binary.NativeEndian.PutUint64(word[:], lapValue(r, t.Global()))
				t.PutInline(queue, far.At(8*t.Global()), word[:])
			}
		})
	}
	p.post = func(r *requests.Request) (bool, error) {
		kernel := r.Lane
		if how == "warp" {
			kernel = r.Warp
		}
		if kernel == nil {
			return false, nil
		}
		grid := accel.Grid{Blocks: 1, Threads: 1}
		if len(r.Host) == accel.WarpSize {
			grid.Threads = accel.WarpSize
		}
		return true, run(grid, func(t *accel.Thread) { kernel(t, queue) })
	}
	return nil
}

func postInC(r *requests.Request) (bool, error) {
	for i := range r.InC {
		line := C.CString(r.InC[i].Line())
		code := C.queues_post(line)
		C.free(unsafe.Pointer(line))
		if code != 0 {
			return false, fmt.Errorf("post %d of %d: %d", i, len(r.InC), code)
		}
	}
	if code := C.queues_ring(); code != 0 {
		return false, fmt.Errorf("wait: %d", code)
	}
	return true, nil
}

// do posts a request and says what it has left.
func (p *program) do(r *requests.Request) error {
	posted, err := p.post(r)
	if err != nil {
		return err
	}
	if !posted {
		fmt.Println("none")
		return nil
	}
	r.Do(p.near, p.far, p.nearBytes, p.farBytes, &p.received)
	halves := span(p.q.reg, 512)
	fmt.Printf("%x %x %x %x\n", span(p.q.ring, 64<<C.LOG_BLOCKS), span(p.q.record, 8), halves[:8], halves[256:264])
	return nil
}

func lapValue(round, word int) uint64 { return uint64(round)<<32 | uint64(word+1) }

// around lets many posters go around the ring, all to the queue pair at once.
func (p *program) around(rounds int) error {
	if err := p.laps(rounds); err != nil {
		return err
	}
	for i := range lapWords {
		binary.NativeEndian.PutUint64(p.farBytes[8*i:], lapValue(rounds-1, i))
	}
	fmt.Println("done")
	return nil
}

func (p *program) end() error {
	for _, m := range []struct {
		name      string
		got, want []byte
	}{
		{"near", p.live(p.q.near)[:C.MEMORY-8], p.nearBytes[:C.MEMORY-8]}, // the last 8 bytes are the sink
		{"far", p.live(p.q.far), p.farBytes},
	} {
		for i := range m.got {
			if m.got[i] != m.want[i] {
				return fmt.Errorf("byte %d of %s memory is %#x, not %#x", i, m.name, m.got[i], m.want[i])
			}
		}
	}
	C.queues_destroy()
	fmt.Println("ok")
	return nil
}
