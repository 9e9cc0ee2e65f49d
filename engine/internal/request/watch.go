//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/tap"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// usualRing is the size of a ring if the watcher leaves it to the device. At a gigabyte of events a second, a
// watcher that looks every millisecond has sixteen times the time that it needs.
const usualRing = 16 << 20

// A watching makes and ends the watch of a client.
type watching struct{ *Client }

// begin serves OpWatch. Making and filling the rings takes long, so it is not done on the engine's thread.
func (c watching) begin(payload []byte) (ans control.Message, r control.Reply, err error) {
	var m control.Watch
	if err := control.Parse(control.OpWatch, payload, &m); err != nil {
		return nil, r, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	w, err := c.newWatch(&m)
	if err != nil {
		return nil, r, err
	}
	file, err := w.Rings.OpenReadOnly()
	if err == nil {
		err = c.startWatch(w, &m)
		if err != nil {
			_ = file.Close()
		}
	}
	if err != nil {
		c.freeRings(w)
		return nil, r, err
	}
	r.Rings = file
	return &control.Rings{Rings: uint32(len(c.Device.Shards)), Size: uint32(w.Size)}, r, nil
}

// newWatch checks a request, and makes the memory of a watch.
func (c watching) newWatch(m *control.Watch) (*object.Watcher, error) {
	if c.Closed {
		return nil, object.ErrClosed
	}
	if c.Watch != nil {
		return nil, control.Errorf(control.CodeLimit, "a client has one watch, and this one has it already")
	}
	ways := 0
	for _, set := range []bool{m.All&control.WatchAll != 0, m.QPN != 0, m.PID != 0, m.Program != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 || m.All&^(control.WatchAll|control.WatchReplay|control.WatchSanitize) != 0 {
		return nil, control.Errorf(control.CodeInvalid, "all %d, QP %#06x, pid %d, program %q; exactly one of them says what is watched", m.All, m.QPN, m.PID, m.Program)
	}
	if m.All&(control.WatchSanitize|control.WatchReplay) == control.WatchSanitize {
		return nil, control.Errorf(control.CodeInvalid, "all %d: what the sanitizer needs (bit 2) is recorded only with what a replay needs (bit 1)", m.All)
	}
	n := m.Bytes
	if n == 0 {
		n = usualRing
	}
	if n < trace.LeastRing || n > trace.MostRing || n&(n-1) != 0 {
		return nil, control.Errorf(control.CodeInvalid, "rings of %d bytes; a power of two from %d to %d is possible", n, trace.LeastRing, trace.MostRing)
	}
	w := &object.Watcher{Owner: c.Client.Client, Size: trace.RingHeadSize + int(n),
		All: m.All&control.WatchAll != 0, Replay: m.All&control.WatchReplay != 0,
		PID: int(m.PID), Program: m.Program}
	if err := c.Device.Ledger.Take(c.UID, c.ringCharge(w)); err != nil {
		return nil, err
	}
	var err error
	create := shm.CreateForReaders
	if seesAll(c.Client.Client) {
		create = shm.CreateSealed // nobody can open it for writing, but its pages cannot be discarded
	}
	w.Rings, err = c.Device.MakeMemory("events", w.Size*len(c.Device.Shards), create)
	if err == nil {
		// The engine's thread must not be the one to find that there is no memory.
		err = w.Rings.Populate(w.Rings.Bytes())
		if err != nil {
			_ = w.Rings.Close()
		}
	}
	if err != nil {
		c.Device.Ledger.Refund(c.UID, c.ringCharge(w))
		return nil, control.Errorf(control.CodeMemory, "%v", err)
	}
	return w, nil
}

// ringCharge is what the owner of a watch pays.
func (c watching) ringCharge(w *object.Watcher) quota.Charge {
	return object.RegionCharge(c.UID, w.Size*len(c.Device.Shards)).Plus(object.RegionFile)
}

// freeRings gives the memory of a watch back. The watcher may keep its mapping for ever, so the pages of a
// user who is charged for them are discarded.
func (c watching) freeRings(w *object.Watcher) {
	if !seesAll(c.Client.Client) {
		_ = w.Rings.Discard()
	}
	_ = w.Rings.Close()
	c.Device.Ledger.Refund(c.UID, c.ringCharge(w))
}

// startWatch begins to record for a watch. The clients that exist are added one by one, between steps, so
// that no step waits for thousands of queues.
func (c watching) startWatch(w *object.Watcher, m *control.Watch) (err error) {
	e := c.Device
	number := -1
	var all []*object.Client
	var between [][execution.UnmappedBytes]byte // through which payload is recorded
	if w.Replay {
		between = make([][execution.UnmappedBytes]byte, len(e.Shards))
	}
	e.DoWith(mailbox.NoWork, func() {
		number, err = c.freeNumber()
		if err != nil {
			return
		}
		if m.QPN != 0 {
			w.QP = e.QPs[m.QPN]
			if w.QP == nil || !maySee(c.Client.Client, w.QP.Client) {
				err = control.Errorf(control.CodeNotFound, "there is no QP %#06x that this user may watch", m.QPN)
				return
			}
		}
		e.Watches[number], c.Watch = w, w
		if w.Replay {
			e.WatchesReplay |= 1 << number
			if m.All&control.WatchSanitize != 0 {
				e.WatchesSanitize |= 1 << number
			}
			for i, sh := range e.Shards {
				if sh.Scratch.Unmapped.Between == nil {
					sh.Scratch.Unmapped.Between = between[i][:]
				}
			}
		}
		now := trace.Clock{Hz: clock.Hz(), Ticks: e.Shards[0].Hooks.Hold(clock.Now()),
			Unix: time.Now().UnixNano(), GUID: e.Runner.GUID}
		for i, sh := range e.Shards {
			sh.Taps.Add(number, tap.NewRing(w.Rings.Bytes()[i*w.Size:][:w.Size], now, i))
			for other := range sh.Clients {
				all = append(all, other)
			}
		}
		if w.All && seesAll(c.Client.Client) {
			e.WatchesAll |= 1 << number
			for _, p := range e.Shards[0].Ports {
				e.Loops[0].RecordLink(p, 1<<number)
			}
		}
		if w.QP != nil {
			w.QP.Watch(1 << number)
			e.recordClient(w.QP.Client, 1<<number)
			recordQueues(e, w.QP, 1<<number)
		}
	})
	if err != nil || w.QP != nil {
		return err
	}
	for _, other := range all {
		e.followAll(other, number)
	}
	return nil
}

// freeNumber returns the number of a new watch of c. As with other resources, a user may have as many watches
// as stay free for all others.
func (c watching) freeNumber() (number int, err error) {
	own, others := 0, 0
	number = -1
	payer := c.Device.Ledger.Payer
	for i, w := range c.Device.Watches {
		switch {
		case w == nil && number < 0:
			number = i
		case w != nil && payer(w.Owner.UID) == payer(c.UID):
			own++
		case w != nil:
			others++
		}
	}
	most := tap.Most - others
	if !seesAll(c.Client.Client) {
		most /= 2
	}
	if own >= most || number < 0 {
		return -1, control.Errorf(control.CodeLimit, "this user has %d watches; %d of the device's %d are free for it", own, max(most, 0), tap.Most)
	}
	return number, nil
}

// end ends the watch of c, if it has one. Its number is used again when no object has its bit any more.
func (c watching) end() {
	w := c.Watch
	if w == nil {
		return
	}
	e := c.Device
	number := -1
	var all []*object.Client
	e.DoWith(mailbox.NoWork, func() {
		c.Watch = nil
		number = slices.Index(e.Watches[:], w)
		w.All, w.PID, w.Program = false, 0, "" // new clients are not followed any more
		e.WatchesAll &^= 1 << number
		for _, sh := range e.Shards {
			sh.Taps.Remove(number)
			all = slices.AppendSeq(all, maps.Keys(sh.Clients))
		}
	})
	for _, other := range all {
		e.unfollow(other, 1<<number)
	}
	e.DoWith(mailbox.NoWork, func() {
		e.Watches[number] = nil
		e.WatchesReplay &^= 1 << number
		e.WatchesSanitize &^= 1 << number
	})
	c.freeRings(w)
}

// programOf returns the name of a process, as the kernel has it: at most 15 bytes, which the process can
// change at any time. It is empty if there is no such process.
func programOf(pid int) string {
	if pid <= 0 {
		return ""
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}
