//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Request serves one control request of this client and returns the answer, and what goes to the client with
// the answer (r): descriptors and memory. A refusal is a *control.Error. After a refusal mem.Region still
// belongs to the caller.
func (c *Client) Request(op control.Op, payload []byte,
	mem object.RequestMemory) (ans control.Message, r control.Reply, err error) {
	if err := (faulting{c}).refused(op); err != nil {
		return nil, r, err
	}
	if serve := callerHandlers[op]; serve != nil {
		ans, err = serve(c, payload)
		return ans, r, err
	}
	if op == control.OpWatch {
		return watching{c}.begin(payload)
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
	if hasMemory := mem.Region != nil; hasMemory != (op == control.OpCreateRegion) {
		return nil, r, control.Errorf(control.CodeUnsupported, "%v: a client in the device's own process adds memory of its own, by AddRegion", op)
	}
	c.do(mailbox.EffectOf(op, payload), op.String(), func() {
		c.Loop().StepClock = 0 // so that the request reads the clock: the last step may have ended long ago
		panics := debug.SetPanicOnFault(true)
		defer debug.SetPanicOnFault(panics)
		defer refuseFault(&err)
		ans, err = h(c, payload, mem, &r)
	})
	c.Finish()
	return ans, r, err
}

// Finish does the work that a request has put into c.After, because the work must not be done on the
// engine's thread.
func (c *Client) Finish() {
	for _, f := range c.After {
		f()
	}
	clear(c.After)
	c.After = c.After[:0]
}

// refuseFault is deferred by a function that serves a request. If the request caused a fault of a client's
// memory, refuseFault sets *err to the refusal of the request. Any other panic goes on.
func refuseFault(err *error) {
	r := recover()
	if r == nil {
		return
	}
	addr, ok := pagefault.Of(r)
	if !ok {
		panic(r)
	}
	*err = control.Errorf(control.CodeMemory, object.NoPage, addr)
}

// A handler serves the control requests of one operation. It runs on the engine's thread. It returns the
// answer, and puts into r what goes to the client with the answer.
type handler func(c *Client, payload []byte, mem object.RequestMemory,
	r *control.Reply) (control.Message, error)

// handle adds a handler for an operation to table. The handler parses the payload as a message of type T, and
// calls serve with the message.
func handle[T any, M interface {
	*T
	control.Message
}](table map[control.Op]handler, op control.Op, serve func(c *Client, m M, mem object.RequestMemory,
	r *control.Reply) (control.Message, error)) {
	table[op] = func(c *Client, payload []byte, mem object.RequestMemory,
		r *control.Reply) (control.Message, error) {
		m := M(new(T))
		if err := control.Parse(op, payload, m); err != nil {
			return nil, control.Errorf(control.CodeInvalid, "%v", err)
		}
		return serve(c, m, mem, r)
	}
}

// handlers has the handlers of all operations but those in callerHandlers.
var handlers = func() map[control.Op]handler {
	t := make(map[control.Op]handler)
	handle(t, control.OpHello, hello)
	handle(t, control.OpAllocPD, allocPD)
	handle(t, control.OpDeallocPD, deallocPD)
	handle(t, control.OpCreateRegion, createRegion)
	handle(t, control.OpPlaceRegion, placeRegion)
	handle(t, control.OpDropRegion, dropRegion)
	handle(t, control.OpRegMR, regMR)
	handle(t, control.OpDeregMR, deregMR)
	handle(t, control.OpCreateChannel, createChannel)
	handle(t, control.OpDestroyChannel, destroyChannel)
	handle(t, control.OpCreateCQ, createCQ)
	handle(t, control.OpDestroyCQ, destroyCQ)
	handle(t, control.OpCreateQP, createQP)
	handle(t, control.OpModifyQP, modifyQP)
	handle(t, control.OpQueryQP, queryQP)
	handle(t, control.OpDestroyQP, destroyQP)
	handle(t, control.OpCreateSRQ, createSRQ)
	handle(t, control.OpModifySRQ, modifySRQ)
	handle(t, control.OpQuerySRQ, querySRQ)
	handle(t, control.OpDestroySRQ, destroySRQ)
	handle(t, control.OpResizeCQ, resizeCQ)
	handle(t, control.OpAllocMW, allocMW)
	handle(t, control.OpCreateMkey, createMkey)
	handle(t, control.OpReregMR, reregMR)
	handle(t, control.OpOpenEvents, openEvents)
	handle(t, control.OpWake, setWake)
	handle(t, control.OpOpenXRCD, openXRCD)
	handle(t, control.OpCloseXRCD, closeXRCD)
	handle(t, control.OpCreateXSRQ, createXSRQ)
	handle(t, control.OpCreateTarget, createTarget)
	handle(t, control.OpOpenTarget, openTarget)
	handle(t, control.OpCreateDCT, createDCT)
	handle(t, control.OpQueryPort, queryPort)
	return t
}()

// hello serves the first request of a client.
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
		c.Device.recordClient(c.Client, c.Follows)
	}
	r.UAR, r.Status = c.UAR, c.Status
	w := c.Device.welcome(c.grant(m.Features))
	w.UARPages = uint32(c.Hosted.UARPages)
	return w, nil
}

// nameBytes is how many bytes the log shows of the name that a client gives itself in hello.
const nameBytes = 64

// printable returns the first nameBytes bytes of a name, with a question mark for each character that
// the log would escape.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, name[:min(len(name), nameBytes)])
}

// welcome returns the answer to a hello: the features granted, and the device's identity and limits.
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

// do runs f, which serves a request of this client, by Device.DoWith. what names the request for the watchdog
// and for explanations. While f runs, the watchdog can see the request. If the client's memory has delayed f,
// do explains the delay to the client. It knows of the delay from the time and the page faults of the thread
// that runs f, which is a shard's thread or the caller's.
func (c *Client) do(effect mailbox.Effect, what string, f func()) {
	c.Device.DoWith(effect, func() {
		runtime.LockOSThread() // the page faults of this one thread are counted
		defer runtime.UnlockOSThread()
		r := object.ControlRequest{Client: c.Client.Name, What: what, Since: clock.Now()}
		c.Device.Watchdog.Request.Store(&r)
		var meter usage.Meter
		meter.Sample(r.Since, false)
		defer func() {
			c.Device.Watchdog.Request.Store(nil)
			now := clock.Now()
			if now-r.Since <= clock.Cycles(report.SlowRequest) {
				return
			}
			if delay, ok := meter.Check(r.Since, now, report.SlowTime); ok {
				site := report.DelaySite{Subject: report.Subject{Client: c.Client},
					What: "request " + what + ": ", InProcess: c.Process != nil}
				for _, r := range c.Regions {
					site.AddRegions(r)
				}
				c.Loop().ExplainDelay(site, delay, false)
			}
		}()
		f()
	})
}
