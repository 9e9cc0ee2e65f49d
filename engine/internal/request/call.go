//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Request serves one control request of this client and returns the answer. A refusal is a
// *control.Error. After a refusal mem.Region still belongs to the caller.
func (c *Client) Request(op control.Op, payload []byte,
	mem object.RequestMemory) (ans control.Message, r control.Reply, err error) {
	if serve := mayWait[op]; serve != nil {
		ans, err = serve(c, payload)
		return ans, r, err
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return nil, r, object.ErrClosed
	}
	h, ok := handlers[op]
	if !ok {
		return nil, r, control.Errorf(control.CodeUnsupported, "%v: unknown to this device, whose protocol is %d.%d", op, control.Major, control.Minor)
	}
	if (mem.Region != nil) != (op == control.OpCreateRegion) {
		return nil, r, control.Errorf(control.CodeUnsupported, "%v: a client in the device's own process adds memory of its own, by AddRegion", op)
	}
	c.do(mailbox.BringingOf(op, payload), op.String(), func() {
		c.Loop().StepClock = 0 // the clock was read in the last step, which may be long ago
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer refuseFault(&err)
		ans, err = h(c, payload, mem, &r)
	})
	c.Finish()
	return ans, r, err
}

// Finish does the work that a request has left for later, because it must not be done on
// the engine's thread.
func (c *Client) Finish() {
	for _, f := range c.After {
		f()
	}
	clear(c.After)
	c.After = c.After[:0]
}

// refuseFault turns a fault of a client's memory into a refusal of the request that caused
// the fault.
func refuseFault(err *error) {
	r := recover()
	if r == nil {
		return
	}
	addr, ok := object.FaultOf(r)
	if !ok {
		panic(r)
	}
	*err = control.Errorf(control.CodeMemory, object.NoPage, addr)
}

// A handler serves one kind of control request. It runs on the engine's thread.
type handler func(c *Client, payload []byte, mem object.RequestMemory,
	r *control.Reply) (control.Message, error)

// on makes a handler from a function that takes the parsed request.
func on[T any, M interface {
	*T
	control.Message
}](op control.Op, f func(c *Client, m M, mem object.RequestMemory,
	r *control.Reply) (control.Message, error)) (control.Op, handler) {
	return op, func(c *Client, payload []byte, mem object.RequestMemory,
		r *control.Reply) (control.Message, error) {
		m := M(new(T))
		if err := control.Parse(op, payload, m); err != nil {
			return nil, control.Errorf(control.CodeInvalid, "%v", err)
		}
		return f(c, m, mem, r)
	}
}

var handlers = func() map[control.Op]handler {
	t := make(map[control.Op]handler)
	add := func(op control.Op, h handler) { t[op] = h }
	add(on(control.OpHello, hello))
	add(on(control.OpAllocPD, allocPD))
	add(on(control.OpDeallocPD, deallocPD))
	add(on(control.OpCreateRegion, createRegion))
	add(on(control.OpPlaceRegion, placeRegion))
	add(on(control.OpDropRegion, dropRegion))
	add(on(control.OpRegMR, regMR))
	add(on(control.OpDeregMR, deregMR))
	add(on(control.OpCreateChannel, createChannel))
	add(on(control.OpDestroyChannel, destroyChannel))
	add(on(control.OpCreateCQ, createCQ))
	add(on(control.OpDestroyCQ, destroyCQ))
	add(on(control.OpCreateQP, createQP))
	add(on(control.OpModifyQP, modifyQP))
	add(on(control.OpQueryQP, queryQP))
	add(on(control.OpDestroyQP, destroyQP))
	add(on(control.OpCreateSRQ, createSRQ))
	add(on(control.OpModifySRQ, modifySRQ))
	add(on(control.OpQuerySRQ, querySRQ))
	add(on(control.OpDestroySRQ, destroySRQ))
	add(on(control.OpResizeCQ, resizeCQ))
	add(on(control.OpAllocMW, allocMW))
	add(on(control.OpCreateMkey, createMkey))
	add(on(control.OpReregMR, reregMR))
	add(on(control.OpOpenEvents, openEvents))
	add(on(control.OpWake, setWake))
	add(on(control.OpOpenXRCD, openXRCD))
	add(on(control.OpCloseXRCD, closeXRCD))
	add(on(control.OpCreateXSRQ, createXSRQ))
	add(on(control.OpCreateTarget, createTarget))
	add(on(control.OpOpenTarget, openTarget))
	add(on(control.OpCreateDCT, createDCT))
	return t
}()

func hello(c *Client, m *control.Hello, _ object.RequestMemory, r *control.Reply) (control.Message, error) {
	if m.Magic != control.Magic {
		return nil, control.Errorf(control.CodeVersion, "hello: magic %#08x, a nicless client sends %#08x", m.Magic, control.Magic)
	}
	if m.Major != control.Major {
		return nil, control.Errorf(control.CodeVersion, "hello: the client speaks protocol %d.%d, this device %d.%d; major numbers must be equal",
			m.Major, m.Minor, control.Major, control.Minor)
	}
	if c.Greeted {
		return nil, control.Errorf(control.CodeInvalid, "hello: sent twice by %s", c.Client.Name)
	}
	c.Greeted = true
	if m.Name != "" {
		c.Client.Name = fmt.Sprintf("%s %q", c.Client.Name, printable(m.Name))
	}
	r.UAR, r.Status = c.UAR, c.Status
	w := c.Device.welcome(c.grant(m.Features))
	w.UARPages = uint32(c.Hosted.UARPages)
	return w, nil
}

// nameBytes is how many bytes of a client's own name the log shows.
const nameBytes = 64

// printable returns the beginning of a name, with a question mark for each character that
// the log would escape.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, name[:min(len(name), nameBytes)])
}

// welcome returns the answer to a hello: the device's identity and limits.
func (e Device) welcome(features uint64) *control.Welcome {
	l := e.Settings.Limits
	return &control.Welcome{
		Major: control.Major, Minor: control.Minor,
		UARPages: object.UARPages, Features: features, GUID: e.Runner.GUID,
		MaxRegions: uint32(l.Regions), MaxPDs: uint32(l.PDs), MaxMRs: uint32(l.MRs),
		MaxCQs: uint32(l.CQs), MaxQPs: uint32(l.QPs), MaxChannels: uint32(l.Channels),
		MaxBytes: l.Bytes,
		MaxLogSQ: object.MaxLogSQ, MaxLogRQ: object.MaxLogRQ, MaxLogCQ: object.MaxLogCQ,
		MaxRdAtomic: object.MaxRdAtomic, MaxMessageLog: wqe.MaxMessageLog,
	}
}

// do is Device.DoWith for a request of this client. The watchdog sees the request. If memory of the
// client has delayed the request, that is explained. The request runs on a shard's thread or on the
// caller's thread, so the usage of that thread is sampled before and after.
func (c *Client) do(b mailbox.Bringing, what string, f func()) {
	c.Client.Device.DoWith(b, func() {
		runtime.LockOSThread() // the page faults of this one thread are counted
		defer runtime.UnlockOSThread()
		r := object.ControlRequest{Client: c.Client.Name, What: what, Since: clock.Now()}
		c.Client.Device.Watchdog.Request.Store(&r)
		var u usage.Meter
		u.Sample(r.Since, false)
		defer func() {
			c.Client.Device.Watchdog.Request.Store(nil)
			now := clock.Now()
			if now-r.Since <= clock.Cycles(report.SlowRequest) {
				return
			}
			if d, ok := u.Check(r.Since, now, report.SlowTime); ok {
				m := report.DelaySite{Subject: report.Subject{Client: c.Client},
					What: "request " + what + ": ", InProcess: c.Process != nil}
				for _, r := range c.Regions {
					m.AddRegions(r)
				}
				c.Loop().ExplainDelay(m, d, false)
			}
		}()
		f()
	})
}
