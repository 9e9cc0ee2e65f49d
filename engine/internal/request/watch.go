//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/tap"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"golang.org/x/sys/unix"
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
	fd, err := unix.FcntlInt(w.Rings.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = c.startWatch(w, &m)
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		c.freeRings(w)
		return nil, r, err
	}
	_ = w.Rings.CloseFile()
	r.Rings = os.NewFile(uintptr(fd), "nicless:events")
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
	for _, set := range []bool{m.All == 1, m.QPN != 0, m.PID != 0, m.Program != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 || m.All > 1 {
		return nil, control.Errorf(control.CodeInvalid, "all %d, QP %#06x, pid %d, program %q; exactly one of them says what is watched", m.All, m.QPN, m.PID, m.Program)
	}
	n := m.Bytes
	if n == 0 {
		n = usualRing
	}
	if n < trace.LeastRing || n > trace.MostRing || n&(n-1) != 0 {
		return nil, control.Errorf(control.CodeInvalid, "rings of %d bytes; a power of two from %d to %d is possible", n, trace.LeastRing, trace.MostRing)
	}
	w := &object.Watcher{Owner: c.Client.Client, Size: trace.RingHeadSize + int(n), All: m.All == 1,
		PID: int(m.PID), Program: m.Program}
	if err := c.Device.Ledger.Take(c.UID, c.ringCharge(w)); err != nil {
		return nil, err
	}
	var err error
	w.Rings, err = c.Device.MakeMemory("events", w.Size*len(c.Device.Shards), shm.CreateSealed)
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
	return object.RegionCharge(c.UID, w.Size*len(c.Device.Shards))
}

// freeRings gives the memory of a watch back. Nobody else can write to it, so nothing can hold it.
func (c watching) freeRings(w *object.Watcher) {
	_ = w.Rings.Close()
	c.Device.Ledger.Refund(c.UID, c.ringCharge(w))
}

// startWatch begins to record for a watch. The clients that exist are added one by one, between steps, so
// that no step waits for thousands of queues.
func (c watching) startWatch(w *object.Watcher, m *control.Watch) (err error) {
	e := c.Device
	number := -1
	var all []*object.Client
	e.DoWith(mailbox.NoWork, func() {
		for i, other := range e.Watches {
			if other == nil {
				number = i
				break
			}
		}
		if number < 0 {
			err = control.Errorf(control.CodeLimit, "this device has %d watches, which is its limit", tap.Most)
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
		now := trace.Clock{Hz: clock.Hz(), Ticks: clock.Now(), Unix: time.Now().UnixNano(),
			GUID: e.Runner.GUID}
		for i, sh := range e.Shards {
			sh.Taps.Add(number, tap.NewRing(w.Rings.Bytes()[i*w.Size:][:w.Size], now, i))
			sh.Watching++
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
			e.recordQueue(w.QP, 1<<number)
		}
	})
	if err != nil || w.QP != nil {
		return err
	}
	for _, other := range all {
		e.DoWith(mailbox.NoWork, func() { e.follow(other, number) })
	}
	return nil
}

// end ends the watch of c, if it has one.
func (c watching) end() {
	w := c.Watch
	if w == nil {
		return
	}
	e := c.Device
	e.DoWith(mailbox.NoWork, func() {
		c.Watch = nil
		mask := uint32(0)
		for i, other := range e.Watches {
			if other == w {
				e.Watches[i], mask = nil, 1<<i
			}
		}
		e.WatchesAll &^= mask
		for _, sh := range e.Shards {
			sh.Taps.Remove(bits.TrailingZeros32(mask))
			sh.Watching--
			for other := range sh.Clients {
				unfollow(other, mask)
			}
		}
	})
	c.freeRings(w)
}

// unfollow takes watches away from c and its queues.
func unfollow(c *object.Client, mask uint32) {
	if c.Watched&mask == 0 {
		return
	}
	c.Follows, c.Watched = c.Follows&^mask, c.Watched&^mask
	for _, q := range c.QPs {
		if q.Watched&mask != 0 {
			q.Unwatch(mask)
		}
	}
	for _, q := range c.CQs {
		q.SetWatched(q.Watched &^ mask)
	}
}

// follows reports whether w is of all that c does. Its owner does not watch itself.
func follows(w *object.Watcher, c *object.Client) bool {
	if c == w.Owner || !maySee(w.Owner, c) {
		return false
	}
	switch {
	case w.PID != 0:
		return w.PID == c.Hosted.PID
	case w.Program != "":
		return w.Program == c.Program
	}
	return w.All
}

// maySee reports whether c may watch other.
func maySee(c, other *object.Client) bool {
	payer := c.Device.Ledger.Payer
	return seesAll(c) || payer(c.UID) == payer(other.UID)
}

// seesAll reports whether c may watch the clients of all users: its user is root or the device's own, who
// could read the device's memory anyway.
func seesAll(c *object.Client) bool { return c.UID == 0 || c.UID == uint32(os.Getuid()) }

// follow adds a watch to a client and its queues, if it is for the client and the client is still there.
func (e Device) follow(c *object.Client, number int) {
	w, mask := e.Watches[number], uint32(1)<<number
	_, there := c.Shard.Clients[c]
	if w == nil || !there || c.Follows&mask != 0 || !follows(w, c) {
		return
	}
	c.Follows |= mask
	c.Watched |= mask
	e.recordClient(c, mask)
	for _, k := range c.MRs {
		e.recordKey(k, mask, trace.KeyMade)
	}
	for _, q := range c.CQs {
		q.SetWatched(q.Watched | mask)
	}
	for _, q := range c.QPs {
		q.Watch(mask)
		e.recordQueue(q, mask)
	}
}

// followNew adds to a new client all watches that are for it.
func (e Device) followNew(c *object.Client) {
	for number, w := range e.Watches {
		if w != nil {
			e.follow(c, number)
		}
	}
}

// recordClient records that a client exists.
func (e Device) recordClient(c *object.Client, mask uint32) {
	c.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindClient, Time: clock.Now(), Queue: c.Number,
		Value: uint64(max(c.Hosted.PID, 0)), Data: []byte(c.Name)})
}

// recordQueue records what a queue pair is.
func (e Device) recordQueue(q *object.QP, mask uint32) {
	if mask == 0 {
		return
	}
	a := &q.Attr
	info := trace.QueueInfo{Peer: a.DestQPN, SendPSN: a.SQPSN, RecvPSN: a.RQPSN,
		SendBlocks: uint32(q.SQ.Mask + 1), RecvEntries: uint32(q.RQ.Mask + 1), GID: q.Client.Hosted.GID}
	if p := e.QPs[a.DestQPN]; p != nil && q.Wire == nil && a.DestQPN != 0 {
		info.PeerGID = p.Client.Hosted.GID
	}
	if a.PathMTU != 0 {
		info.MTU = 128 << min(a.PathMTU, 5)
	}
	if q.SQ.CQ != nil {
		info.SendCQ = q.SQ.CQ.Num
	}
	if q.RQ.CQ != nil {
		info.RecvCQ = q.RQ.CQ.Num
	}
	if q.RQ.SRQ != nil {
		info.SRQ = q.RQ.SRQ.Num
	}
	if w := q.Wire; w != nil {
		info.Port, info.MTU = w.Port.Number, w.MTU
	}
	q.Client.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindQueue, Time: clock.Now(), Queue: q.Num,
		Index: uint16(a.State), Count: uint16(transports[q.Transport]), Value: uint64(q.Client.Number),
		Data: info.Append(nil)})
}

// transports has the number of each transport in events.
var transports = map[uint8]trace.Transport{
	control.QPTypeRC: trace.RC, control.QPTypeUC: trace.UC, control.QPTypeUD: trace.UD,
	control.QPTypeXRC: trace.XRCIni, control.QPTypeDCI: trace.DCI, control.QPTypeDCT: trace.DCT,
}

// recordKey records that a key was made, has changed or is gone.
func (e Device) recordKey(k *object.Mkey, mask uint32, how uint16) {
	if mask == 0 {
		return
	}
	k.Client.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindKey, Time: clock.Now(), Queue: k.Key,
		Index: how, Count: uint16(k.Access), Data: trace.KeyInfo{Addr: k.Base, Length: k.Size,
			Client: k.Client.Number}.Append(nil)})
}

// recordGone records that a client or a queue is gone.
func recordGone(sh *object.Shard, mask uint32, kind trace.Kind, number uint32) {
	if mask != 0 {
		sh.Taps.Record(mask, &trace.Event{Kind: kind, Time: clock.Now(), Queue: number})
	}
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
