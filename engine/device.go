//go:build linux && (amd64 || arm64)

package engine

import (
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// This file implements package nic, through which servers in the engine's process use the
// engine. Connections and protocols belong to the servers. The resources that servers hold
// for programs are charged here, in the ledger in which the device's own objects are
// charged. So a user has one share, whichever protocols its programs use.

func init() {
	nic.Register(func(e any) nic.Device { return e.(*Engine).nic() })
}

// nicDevice implements nic.Device and nic.Probe.
type nicDevice struct{ *runner }

var _ nic.Probe = nicDevice{}

// nic returns the device as servers see it.
func (e *Engine) nic() nicDevice { return nicDevice{e.runner} }

// GUID returns the number that identifies this device.
func (d nicDevice) GUID() uint64 { return d.guid }

func (d nicDevice) AttachLocal(name string, registers func(size int) (*shm.Region, error)) (nic.Client, error) {
	c, err := d.attachLocalWith(name, registers)
	if err != nil {
		return nil, err // not c: an interface that holds a nil pointer is not nil
	}
	return c, nil
}

func (d nicDevice) Attach(name string, uid uint32, h nic.Hosted) (nic.Client, error) {
	c, err := d.attachHosted(name, uid, h)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d nicDevice) Charge(uid uint32, c nic.Cost) error { return d.ledger.Take(uid, chargeOf(c)) }
func (d nicDevice) Incur(uid uint32, c nic.Cost) error  { return d.ledger.Incur(uid, chargeOf(c)) }
func (d nicDevice) Refund(uid uint32, c nic.Cost)       { d.ledger.Refund(uid, chargeOf(c)) }

func chargeOf(c nic.Cost) quota.Charge {
	return quota.Charge{quota.Memory: c.Memory, quota.Descriptors: c.Descriptors, quota.Connections: c.Connections, quota.Unread: c.Unread, quota.Paths: c.Paths}
}

func (d nicDevice) Discard(uid uint32, files []nic.File) {
	if len(files) == 0 {
		return
	}
	d.discard(uid, len(files), func() {
		for _, f := range files {
			if f != nil { // the server has not kept it
				_ = f.Close()
			}
		}
	})
}

func (d nicDevice) DiscardConnection(uid uint32, conn nic.Connection, c nic.Cost) {
	unixsock.HangUp(conn)
	d.discardConnection(uid, conn, chargeOf(c))
}

func (d nicDevice) Clogged(uid uint32) bool { return d.clogged(uid) }
func (d nicDevice) Backlogged() bool        { return d.backlogged() }

func (d nicDevice) Unpolled(uid, qpn uint32) bool { return d.unpolled(uid, qpn) }

func (d nicDevice) Aside(uid uint32, f func()) bool { return d.aside(uid, f) }

// aside calls f on a goroutine that closes descriptors for user uid (a closer; see
// discard.go), and reports whether f has returned within asideTime.
func (e *device) aside(uid uint32, f func()) bool {
	done := make(chan struct{})
	e.discard(uid, 0, func() {
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

// asideTime is how long aside waits for f. f takes unread events back out of a program's
// socket, and the program can block that.
const asideTime = 100 * time.Millisecond

func (d nicDevice) Prepare() error {
	growDescriptors()
	return startHelpers()
}

// growDescriptors makes the kernel grow its table of this process's descriptors to the size
// that clients may need. If the table grew later, that would delay the thread that opens
// the next descriptor by milliseconds (synchronize_rcu), and this thread can be the
// device's.
func growDescriptors() {
	const most = 1 << 16 // 0.5 MiB of the kernel's memory
	if fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, min(quota.Rlimit(unix.RLIMIT_NOFILE, most), most)-1); err == nil {
		_ = unix.Close(fd)
	}
}

func (d nicDevice) CreateMemory(uid uint32, name string, size int) (*shm.Region, error) {
	return d.createMemory(uid, name, size, shm.Create)
}
func (d nicDevice) CreateSparseMemory(uid uint32, name string, size int) (*shm.Region, error) {
	return d.createMemory(uid, name, size, shm.CreateSparse)
}
func (d nicDevice) MapMemory(uid uint32, f nic.File, offset int64, size int) (*shm.Region, error) {
	return d.mapMemory(uid, f, offset, size)
}
func (d nicDevice) ForgetMemory(uid uint32, r *shm.Region)  { d.forgetMemory(uid, r) }
func (d nicDevice) ReleaseMemory(uid uint32, r *shm.Region) { d.releaseMemory(uid, r) }

func (d nicDevice) Report(uid uint32, level slog.Level, text string, attrs ...any) {
	d.report(uid, level, text, attrs...)
}

func (d nicDevice) MaySay(uid uint32, who *nic.Speaker) (unsaid int, ok bool) {
	return d.maySay(uid, who)
}

func (c *caller) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// Call serves one control request. It makes the memory of a new region off the engine's
// thread, because that can take long, and releases the memory if the request is refused.
func (c *caller) Call(op control.Op, payload []byte) (ans control.Message, r control.Reply, err error) {
	if op != control.OpCreateRegion || c.local {
		return c.request(op, payload, requestMemory{})
	}
	mem, err := c.makeMemory(payload)
	if err != nil {
		return nil, r, err
	}
	ans, r, err = c.request(op, payload, mem)
	if err != nil {
		c.r.releaseMemory(c.uid, mem.region)
	}
	return ans, r, err
}

// CallUnmapped is Call for requests that register memory of the client's process.
func (c *caller) CallUnmapped(op control.Op, payload []byte, onDemand bool) (control.Message, control.Reply, error) {
	return c.request(op, payload, requestMemory{inProcess: true, onDemand: onDemand})
}
