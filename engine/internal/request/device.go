//go:build linux && (amd64 || arm64)

package request

import (
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// GUID returns the number that identifies this device.
func (d Device) GUID() uint64 { return d.Runner.GUID }

func (d Device) AttachLocal(name string, registers func(size int) (*shm.Region, error)) (nic.Client, error) {
	c, err := attachLocal(d, name, registers)
	if err != nil {
		return nil, err // not c: an interface that holds a nil pointer is not nil
	}
	return c, nil
}

func (d Device) Choose(k nic.Numbered, number uint32) {
	d.Do(func() {
		n := &d.Numbers
		switch k {
		case nic.Key:
			n.Keys.Choose(number)
		case nic.QP:
			n.QP.SetPlace(n.QP.PlaceOf(number))
		case nic.CQ:
			n.CQ.SetPlace(n.CQ.PlaceOf(number))
		case nic.SRQ:
			n.SRQ.SetPlace(n.SRQ.PlaceOf(number))
		}
	})
}

func (d Device) Attach(name string, uid uint32, h nic.Hosted) (nic.Client, error) {
	c, err := d.NewHosted(name, uid, h)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d Device) Charge(uid uint32, c nic.Cost) error { return d.Ledger.Take(uid, chargeOf(c)) }

func (d Device) Incur(uid uint32, c nic.Cost) error { return d.Ledger.Incur(uid, chargeOf(c)) }

func (d Device) Refund(uid uint32, c nic.Cost) { d.Ledger.Refund(uid, chargeOf(c)) }

func chargeOf(c nic.Cost) quota.Charge {
	return quota.Charge{quota.Memory: c.Memory, quota.Descriptors: c.Descriptors,
		quota.Connections: c.Connections, quota.Unread: c.Unread, quota.Paths: c.Paths}
}

func (d Device) Discard(uid uint32, files []nic.File) {
	if len(files) == 0 {
		return
	}
	d.Runner.Discard(uid, len(files), func() {
		for _, f := range files {
			if f != nil { // the server has not kept this file
				_ = f.Close()
			}
		}
	})
}

func (d Device) DiscardConnection(uid uint32, conn nic.Connection, c nic.Cost) {
	unixsock.HangUp(conn)
	d.Runner.DiscardConnection(uid, conn, chargeOf(c))
}

func (d Device) Clogged(uid uint32) bool { return d.Runner.Clogged(uid) }

func (d Device) Backlogged() bool { return d.Runner.Backlogged() }

func (d Device) Unpolled(uid, qpn uint32) bool { return d.HasUnpolled(uid, qpn) }

// Aside calls f on a goroutine that closes descriptors for user uid (a closer; see
// object/discard.go), and reports whether f has returned within asideTime.
func (d Device) Aside(uid uint32, f func()) bool {
	done := make(chan struct{})
	d.Runner.Discard(uid, 0, func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return true
	case <-time.After(asideTime):
		return false
	}
}

// asideTime is how long Aside waits for f. f takes unread events back out of a program's socket,
// and the program can block that.
const asideTime = 100 * time.Millisecond

func (d Device) Prepare() error {
	growDescriptors()
	return StartHelpers()
}

// growDescriptors makes the kernel grow its table of this process's descriptors to the size
// that clients may need. If the table grew later, that would delay the thread that opens
// the next descriptor by milliseconds (synchronize_rcu), and this thread can be the
// device's.
func growDescriptors() {
	const most = 1 << 16 // 0.5 MiB of the kernel's memory
	if fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC,
		min(quota.Rlimit(unix.RLIMIT_NOFILE, most), most)-1); err == nil {
		_ = unix.Close(fd)
	}
}

func (d Device) CreateMemory(uid uint32, name string, size int) (*shm.Region, error) {
	return d.NewMemory(uid, name, size, shm.Create)
}

func (d Device) CreateSparseMemory(uid uint32, name string, size int) (*shm.Region, error) {
	return d.NewMemory(uid, name, size, shm.CreateSparse)
}

func (d Device) CloseMemoryFile(uid uint32, r *shm.Region) { d.CloseMemory(uid, r) }

func (d Device) ReleaseMemory(uid uint32, r *shm.Region) { d.FreeMemory(uid, r) }

func (d Device) Report(uid uint32, level slog.Level, text string, attrs ...any) {
	d.Runner.Report(uid, level, text, attrs...)
}

func (d Device) MayLog(uid uint32, who *nic.Speaker) (unsaid int, ok bool) {
	return d.Runner.MayLog(uid, who)
}

func (c *Client) Name() string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Client.Name
}

// Call serves one control request. It makes the memory of a new region off the engine's
// thread, because making memory can take long, and releases the memory if the request is refused.
func (c *Client) Call(op control.Op, payload []byte) (ans control.Message, r control.Reply, err error) {
	if op != control.OpCreateRegion || c.Local {
		return c.Request(op, payload, object.RequestMemory{})
	}
	mem, err := c.MakeMemory(payload)
	if err != nil {
		return nil, r, err
	}
	ans, r, err = c.Request(op, payload, mem)
	if err != nil {
		c.Device.FreeMemory(c.UID, mem.Region)
	}
	return ans, r, err
}

// CallUnmapped is Call for requests that register memory of the client's process.
func (c *Client) CallUnmapped(op control.Op, payload []byte,
	onDemand bool) (control.Message, control.Reply, error) {
	return c.Request(op, payload, object.RequestMemory{InProcess: true, OnDemand: onDemand})
}

// HasUnpolled reports whether queue pair qpn, of the user, has a completion queue with entries that the
// client has not consumed yet. It knows what the client has consumed from the consumer indices. Entries of
// other queue pairs that share the completion queue count too.
func (e Device) HasUnpolled(uid, qpn uint32) (some bool) {
	e.DoWith(mailbox.NoWork, func() {
		q := e.QPs[qpn]
		if q == nil || q.Client.UID != uid {
			return
		}
		var fault error // the client has taken the page away, so it will poll nothing there
		panics := debug.SetPanicOnFault(true)
		defer debug.SetPanicOnFault(panics)
		defer refuseFault(&fault)
		some = q.SQ.CQ.ObserveUnread() > 0 || q.RQ.CQ.ObserveUnread() > 0
	})
	return some
}
