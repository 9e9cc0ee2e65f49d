//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// requestMemory is the memory that a request is about, if any.
type requestMemory struct {
	// region is memory that was made for a new region (OpCreateRegion).
	region *shm.Region

	// inProcess is for requests that register memory (OpRegMR, OpReregMR). It says that the
	// addresses are those of memory of the client's process (ShareProcess), even if a region
	// is placed at these addresses: the process may have mapped other memory there since.
	inProcess bool

	// onDemand is for requests that register memory of the client's process. It says that the
	// process need not have mapped anything at the addresses yet.
	onDemand bool
}

// A caller is a client with what its requests need.
type caller struct {
	*client
	r nicDevice
}

// loop returns the thread to which the client belongs.
func (c *caller) loop() *threadLoop { return c.r.loops[c.shard.number] }

// request serves one control request of this client and returns the answer. A refusal is a
// *control.Error. After a refusal mem.region still belongs to the caller.
func (c *caller) request(op control.Op, payload []byte, mem requestMemory) (ans control.Message, r control.Reply, err error) {
	if serve := mayWait[op]; serve != nil {
		ans, err = serve(c, payload)
		return ans, r, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, r, errClosed
	}
	h, ok := handlers[op]
	if !ok {
		return nil, r, control.Errorf(control.CodeUnsupported, "%v: unknown to this device, whose protocol is %d.%d", op, control.Major, control.Minor)
	}
	if (mem.region != nil) != (op == control.OpCreateRegion) {
		return nil, r, control.Errorf(control.CodeUnsupported, "%v: a client in the device's own process adds memory of its own, by AddRegion", op)
	}
	c.do(bringingOf(op, payload), op.String(), func() {
		c.loop().ticks = 0 // the clock was read in the last step, which may be long ago
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer refuseFault(&err)
		ans, err = h(c, payload, mem, &r)
	})
	c.finish()
	return ans, r, err
}

// finish does the work that a request has left for later, because it must not be done on
// the engine's thread.
func (c *caller) finish() {
	for _, f := range c.after {
		f()
	}
	clear(c.after)
	c.after = c.after[:0]
}

// refuseFault turns a fault of a client's memory into a refusal of the request that caused
// the fault.
func refuseFault(err *error) {
	r := recover()
	if r == nil {
		return
	}
	addr, ok := faultOf(r)
	if !ok {
		panic(r)
	}
	*err = control.Errorf(control.CodeMemory, noPage, addr)
}

// A handler serves one kind of control request. It runs on the engine's thread.
type handler func(c *caller, payload []byte, mem requestMemory, r *control.Reply) (control.Message, error)

// on makes a handler from a function that takes the parsed request.
func on[T any, M interface {
	*T
	control.Message
}](op control.Op, f func(c *caller, m M, mem requestMemory, r *control.Reply) (control.Message, error)) (control.Op, handler) {
	return op, func(c *caller, payload []byte, mem requestMemory, r *control.Reply) (control.Message, error) {
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
	add(on(control.OpHello, (*caller).hello))
	add(on(control.OpAllocPD, (*caller).allocPD))
	add(on(control.OpDeallocPD, (*caller).deallocPD))
	add(on(control.OpCreateRegion, (*caller).createRegion))
	add(on(control.OpPlaceRegion, (*caller).placeRegion))
	add(on(control.OpDropRegion, (*caller).dropRegion))
	add(on(control.OpRegMR, (*caller).regMR))
	add(on(control.OpDeregMR, (*caller).deregMR))
	add(on(control.OpCreateChannel, (*caller).createChannel))
	add(on(control.OpDestroyChannel, (*caller).destroyChannel))
	add(on(control.OpCreateCQ, (*caller).createCQ))
	add(on(control.OpDestroyCQ, (*caller).destroyCQ))
	add(on(control.OpCreateQP, (*caller).createQP))
	add(on(control.OpModifyQP, (*caller).modifyQP))
	add(on(control.OpQueryQP, (*caller).queryQP))
	add(on(control.OpDestroyQP, (*caller).destroyQP))
	add(on(control.OpCreateSRQ, (*caller).createSRQ))
	add(on(control.OpModifySRQ, (*caller).modifySRQ))
	add(on(control.OpQuerySRQ, (*caller).querySRQ))
	add(on(control.OpDestroySRQ, (*caller).destroySRQ))
	add(on(control.OpResizeCQ, (*caller).resizeCQ))
	add(on(control.OpAllocMW, (*caller).allocMW))
	add(on(control.OpCreateMkey, (*caller).createMkey))
	add(on(control.OpReregMR, (*caller).reregMR))
	add(on(control.OpOpenEvents, (*caller).openEvents))
	add(on(control.OpWake, (*caller).setWake))
	add(on(control.OpOpenXRCD, (*caller).openXRCD))
	add(on(control.OpCloseXRCD, (*caller).closeXRCD))
	add(on(control.OpCreateXSRQ, (*caller).createXSRQ))
	add(on(control.OpCreateTarget, (*caller).createTarget))
	add(on(control.OpOpenTarget, (*caller).openTarget))
	add(on(control.OpCreateDCT, (*caller).createDCT))
	return t
}()

func (c *caller) hello(m *control.Hello, _ requestMemory, r *control.Reply) (control.Message, error) {
	if m.Magic != control.Magic {
		return nil, control.Errorf(control.CodeVersion, "hello: magic %#08x, a nicless client sends %#08x", m.Magic, control.Magic)
	}
	if m.Major != control.Major {
		return nil, control.Errorf(control.CodeVersion, "hello: the client speaks protocol %d.%d, this device %d.%d; major numbers must be equal",
			m.Major, m.Minor, control.Major, control.Minor)
	}
	if c.greeted {
		return nil, control.Errorf(control.CodeInvalid, "hello: sent twice by %s", c.name)
	}
	c.greeted = true
	if m.Name != "" {
		c.name = fmt.Sprintf("%s %q", c.name, printable(m.Name))
	}
	r.UAR, r.Status = c.uar, c.status
	w := c.r.welcome(c.grant(m.Features))
	w.UARPages = uint32(c.hosted.UARPages)
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
func (e nicDevice) welcome(features uint64) *control.Welcome {
	l := e.cfg.limits
	return &control.Welcome{
		Major: control.Major, Minor: control.Minor,
		UARPages: uarPages, Features: features, GUID: e.guid,
		MaxRegions: uint32(l.Regions), MaxPDs: uint32(l.PDs), MaxMRs: uint32(l.MRs),
		MaxCQs: uint32(l.CQs), MaxQPs: uint32(l.QPs), MaxChannels: uint32(l.Channels),
		MaxBytes: l.Bytes,
		MaxLogSQ: maxLogSQ, MaxLogRQ: maxLogRQ, MaxLogCQ: maxLogCQ,
		MaxRdAtomic: maxRdAtomic, MaxMessageLog: wqe.MaxMessageLog,
	}
}
