//go:build linux && (amd64 || arm64)

package verbs

import (
	"syscall"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"golang.org/x/sys/unix"
)

// Sending to a socket of NETLINK_RDMA. A program that does not read holds nobody up: an answer
// that has no room is lost, and the program is told so when there is room. Only a dump waits for room, in
// a goroutine of its own; a socket has at most one dump, as in the kernel.

// A netlinkDump is an answer of many datagrams.
type netlinkDump struct {
	next func() []byte // returns the next datagram, nil after the last one
	cost nic.Cost      // charged
}

// send sends a datagram if there is room.
func (k *netlinkSocket) send(datagram []byte) {
	if unixsock.Control(k.file, func(fd int) error { return sendNow(fd, datagram) }) != nil {
		k.loseMessage()
	}
}

func sendNow(fd int, datagram []byte) error {
	for {
		_, err := unix.SendmsgN(fd, datagram, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// loseMessage notes that a message had no room.
func (k *netlinkSocket) loseMessage() {
	k.mu.Lock()
	if k.options>>unix.NETLINK_NO_ENOBUFS&1 != 0 {
		k.mu.Unlock()
		return
	}
	k.lost = true
	start := !k.sending
	k.sending = true
	k.mu.Unlock()
	if start {
		go k.push(true)
	}
}

// startDump begins to send a dump. It reports false if the last one has not been sent.
func (k *netlinkSocket) startDump(d *netlinkDump) bool {
	k.mu.Lock()
	if k.dump != nil {
		k.mu.Unlock()
		return false
	}
	k.dump = d
	start := !k.sending
	k.sending = true
	k.mu.Unlock()
	if start {
		k.push(false)
	}
	return true
}

// work returns the next thing to send: the note that messages were lost, or a dump. If there is nothing, push
// has ended.
func (k *netlinkSocket) work() (lost bool, d *netlinkDump) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sending = k.lost || k.dump != nil
	return k.lost, k.dump
}

// sendNote tells the program that messages were lost. Those that are lost before this are in the same note.
func (k *netlinkSocket) sendNote(fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := sendNow(fd, nldev.AppendOverrun(nil))
	if err != unix.EAGAIN {
		k.lost = false
	}
	return err
}

// push sends a dump. If there is no room and wait is false, a goroutine goes on.
func (k *netlinkSocket) push(wait bool) {
	raw, err := k.file.SyscallConn()
	for {
		lost, d := k.work()
		attempt := k.sendNote
		if !lost && d == nil {
			return
		}
		if !lost {
			datagram := d.next()
			if datagram == nil || err != nil {
				k.endDump(d)
				continue
			}
			attempt = func(fd int) error { return sendNow(fd, datagram) }
		}
		if err == nil {
			err = pushOne(raw, attempt, wait)
		}
		switch {
		case err == unix.EAGAIN:
			go k.pushFrom(raw, attempt)
			return
		case err != nil && lost: // the socket has ended
			k.dropNote()
		case err != nil: // without the rest of the dump, the program would wait for ever
			unixsock.HangUp(k.file)
		}
	}
}

func (k *netlinkSocket) dropNote() {
	k.mu.Lock()
	k.lost = false
	k.mu.Unlock()
}

// pushFrom waits until there is room, and goes on after it.
func (k *netlinkSocket) pushFrom(raw syscall.RawConn, attempt func(fd int) error) {
	_ = pushOne(raw, attempt, true) // if the socket has ended, the next one fails too
	k.push(true)
}

func (k *netlinkSocket) endDump(d *netlinkDump) {
	k.mu.Lock()
	k.dump = nil
	k.mu.Unlock()
	k.s.engine.Refund(k.uid, d.cost)
}

// pushOne makes an attempt to send. It returns EAGAIN if there is no room and wait is false.
func pushOne(raw syscall.RawConn, attempt func(fd int) error, wait bool) (err error) {
	failed := error(nil)
	if wait {
		failed = raw.Write(func(fd uintptr) bool {
			err = attempt(int(fd))
			return err != unix.EAGAIN
		})
	} else {
		failed = raw.Control(func(fd uintptr) { err = attempt(int(fd)) })
	}
	if failed != nil {
		return failed
	}
	return err
}
