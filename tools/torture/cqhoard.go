//go:build linux && (amd64 || arm64)

package torture

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// How many connections a CQ hoarder makes, how many CQs with events on each, and for how long it
// arms them. 20 connections with 16,000 CQs each have once put an engine to sleep for all clients,
// for up to 250 ms; here fewer are made so that the attack begins within some seconds.
const (
	cqHoardConnections = 20
	cqHoardQueues      = 2000
	cqHoardTime        = 5 * time.Second
	cqHoardQuiet       = 500 * time.Millisecond
)

// cqSpace is the memory of one CQ of a hoarder: a cache line for the only entry, and one for the
// record.
const cqSpace = 128

// A cqHoard is a connection with many CQs.
type cqHoard struct {
	*raw
	mem  *shm.Region
	nums []uint32
}

// hoardCQs holds many CQs that the engine must poll for arms, and wakes the engine for none. At
// times it arms them as fast as it can, at times it does nothing. Other clients must not wait for
// the engine to look at all of them, nor for a nap that is long because of them. The engine may
// refuse queues.
func (v *hostile) hoardCQs() error {
	var all []*cqHoard
	defer func() {
		for _, h := range all {
			h.close()
			if h.mem != nil {
				_ = h.mem.Close()
			}
		}
	}()
	for range cqHoardConnections {
		c, err := v.dial()
		if err != nil {
			return err
		}
		h := &cqHoard{raw: c}
		all = append(all, h)
		if err := h.fill(); err != nil && !refused(err) {
			return fmt.Errorf("CQ hoarder: %w", err)
		}
		v.did(len(h.nums))
	}
	begin := time.Now()
	for sn := uint8(0); time.Since(begin) < cqHoardTime; sn++ {
		if v.r.IntN(4) == 0 {
			v.pause(cqHoardQuiet)
		}
		for _, h := range all {
			for range 100 {
				if len(h.nums) > 0 {
					h.arm(v.r.IntN(len(h.nums)), sn, v.r.IntN(4) > 0)
				}
			}
		}
		v.did(100 * len(all))
	}
	return nil
}

// fill makes the CQs, until the engine refuses one.
func (h *cqHoard) fill() error {
	if err := h.hello(); err != nil {
		return err
	}
	var channel control.Channel
	if err := h.call(control.OpCreateChannel, &control.Empty{}, &channel); err != nil {
		return err
	}
	mem, _, err := h.region(cqHoardQueues*cqSpace, true)
	if err != nil {
		return err
	}
	h.mem = mem
	for i := range uint64(cqHoardQueues) {
		var made control.CQN
		at := mem.Addr() + i*cqSpace
		cq := &control.CQ{LogCQE: 6, Buf: at, DBRec: at + cqSpace/2, Channel: channel.ID, Handle: i}
		if err := h.call(control.OpCreateCQ, cq, &made); err != nil {
			return err
		}
		h.nums = append(h.nums, made.CQN)
	}
	return nil
}

// arm arms one CQ, with or without the register.
func (h *cqHoard) arm(i int, sn uint8, register bool) {
	a := doorbell.Arm{SN: sn}
	shm.BE32At(h.mem.Bytes(), uint64(i)*cqSpace+cqSpace/2+4).Publish(a.Word())
	if register {
		shm.BE64At(h.uar.Bytes(),
			doorbell.CQArmOffset).Publish(uint64(doorbell.MakeArmRegister(a, h.nums[i])))
	}
}
