//go:build linux && (amd64 || arm64)

package request

import (
	"errors"
	"sync/atomic"

	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"golang.org/x/sys/unix"
)

// Retract takes the unread events of a CQ out of its channel. It returns the number of the
// CQ's events that the program has read. reader is the end of the channel that the program
// reads; the program may read from it meanwhile. The device sends no more events of this CQ,
// because the program will have dropped the CQ and could not assign such events.
//
// A program can read the channel into memory whose page never becomes available. Its read
// then holds the lock that every reader of the channel needs. So neither the device's thread
// nor the caller reads the channel; a closer does. If the closer cannot read the events soon,
// they count as read by the program.
func (c *Client) Retract(cqn uint32, reader nic.File) (read uint32) {
	c.Mu.Lock()
	var sent uint32
	var handle uint64
	var aside *atomic.Uint32
	var out *object.Notifier
	var ends [2]int // the device's end and the program's end: duplicates for this call
	var err error
	c.Device.DoWith(mailbox.NoWork, func() {
		q := c.CQs[cqn]
		if c.Closed || q == nil || q.Channel == nil {
			err = object.ErrClosed
			return
		}
		c.Loop().Disarm(q)
		q.Armed = false
		q.Retracted.Store(true)
		out = q.Channel.Out
		sent, handle, aside = q.Sent, q.Handle, &q.SentAside
		ends[0], err = unix.FcntlInt(uintptr(out.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			out.Paused.Add(1) // events that wait must not take the room of those that are put back
		}
	})
	c.Mu.Unlock()
	if err != nil {
		return sent
	}
	all := func() uint32 { return sent + aside.Load() }
	conn, err := reader.SyscallConn() // Fd would change whether the program's reads block
	if err == nil {
		inner := conn.Control(func(fd uintptr) { ends[1], err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(err, inner)
	}
	if err != nil {
		out.Paused.Add(-1)
		_ = unix.Close(ends[0])
		return all()
	}
	var taken uint32
	if !c.Device.Aside(c.UID, func() {
		out.Mu.Lock() // no closer is in the middle of sending an event
		defer out.Mu.Unlock()
		defer out.Paused.Add(-1)
		taken = unsend(ends[0], ends[1], handle, all())
		_ = unix.Close(ends[0])
		_ = unix.Close(ends[1])
	}) {
		return all() // not less taken: the closer may still be writing to the variable taken
	}
	return all() - taken
}

// unsend takes the events of one CQ out of its channel, and returns how many there were: at most sent, which
// is how many the device has sent. unsend puts the events of other CQs back; the channel has room for them,
// because nobody else sends to it meanwhile.
func unsend(writer, reader int, handle uint64, sent uint32) (taken uint32) {
	var keep [][8]byte
	for range object.EventBuffer { // more than the channel can hold
		var b [8]byte
		if n, _, err := unix.Recvfrom(reader, b[:], unix.MSG_DONTWAIT); err != nil || n != len(b) {
			break
		}
		if eventsocket.HandleOf(b) == handle {
			taken++
		} else {
			keep = append(keep, b)
		}
	}
	for _, b := range keep {
		_ = unix.Send(writer, b[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	return min(taken, sent)
}

// Forsaken returns the completion channels that no CQ uses and that no process can read any more.
func (c *Client) Forsaken() (ids []uint32) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Device.DoWith(mailbox.NoWork, func() {
		for _, ch := range c.Channels {
			if ch.Users > 0 {
				continue
			}
			p := []unix.PollFd{{Fd: int32(ch.Out.FD)}}
			if n, err := unix.Poll(p, 0); err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0 {
				ids = append(ids, ch.ID)
			}
		}
	})
	return ids
}
