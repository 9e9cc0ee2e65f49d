//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"
	"time"

	"github.com/nicless/nicless/verbs/internal/mad"
	"golang.org/x/sys/unix"
)

// A madSend is a request that waits for its answer. No other with the same TID and class may be sent.
type madSend struct {
	agent uint32
	tid   uint64
	class uint8
}

// A madWait is the wait for an answer, which comes from a LID.
type madWait struct {
	timer *time.Timer
	lid   uint16
}

// An outgoing is a datagram that a program has written, in Size bytes.
type outgoing struct {
	f     *madFile
	agent *madAgent
	user  mad.User
	head  mad.Header
	data  []byte
	away  *RemotePort // the port of another engine to which the datagram goes; nil: none
}

// write serves NV_WRITE to a file, in the order of the kernel's checks (ib_umad_write).
func (f *madFile) write(h wireHeader, count uint64, written []byte) ([]byte, []*os.File, error) {
	o, err := f.take(count, written)
	if err != nil {
		return nil, nil, err
	}
	if o.away != nil {
		f.s.sendMAD(*o.away, o.data)
	}
	return le.AppendUint64(appendAnswer(nil, h, 0, 0), 0), nil, nil
}

// take takes a datagram that a program has written, and delivers it if it stays in this engine.
func (f *madFile) take(count uint64, written []byte) (*outgoing, error) {
	f.s.mads.mu.Lock()
	defer f.s.mads.mu.Unlock()
	o, err := f.parse(count, written)
	if err == nil {
		err = f.send(o)
	}
	return o, err
}

// parse returns what a program has written. count is how much that was, and written what has come of it.
func (f *madFile) parse(count uint64, written []byte) (*outgoing, error) {
	n := f.headerSize()
	if count < uint64(n+mad.LeastSize) || len(written) < n+mad.LeastSize {
		return nil, refuse(eINVAL, "umad: a write of %d bytes; at least %d are needed", count, n+mad.LeastSize)
	}
	o := &outgoing{f: f, user: mad.ParseUser(written[:n]), data: make([]byte, mad.Size)}
	switch {
	case o.user.ID >= madAgents:
		return nil, refuse(eINVAL, "umad: agent %d; the greatest number is %d", o.user.ID, madAgents-1)
	case f.agents[o.user.ID] == nil:
		return nil, refuse(eIO, "umad: agent %d is not registered", o.user.ID)
	case count > uint64(n+mad.Size):
		return nil, refuse(eINVAL, "umad: a datagram of %d bytes; %d are possible, because nothing here takes "+
			"requests of several segments", count-uint64(n), mad.Size)
	case f.device.lid == 0 && !o.user.GRH:
		return nil, refuse(eINVAL, "umad: a datagram without a GRH at a port of RoCE")
	}
	copy(o.data, written[n:])
	o.agent = f.agents[o.user.ID]
	o.head = mad.ParseHeader(o.data)
	return o, o.checkPath()
}

// checkPath refuses a directed route that does not begin at this port (smi_handle_dr_smp_send).
func (o *outgoing) checkPath() error {
	if o.head.Class != mad.ClassDirected || o.head.IsResponse() {
		return nil
	}
	pointer, hops := o.head.Specific>>8, o.head.Specific&0xff
	switch {
	case hops >= mad.PathSize || pointer != 0:
		return refuse(eINVAL, "umad: a directed route of %d hops that begins at hop %d", hops, pointer)
	case hops > 0 && o.data[mad.InitialPathAt+1] != 1:
		return refuse(eINVAL, "umad: a directed route by port %d; this is port 1", o.data[mad.InitialPathAt+1])
	}
	return nil
}

// send notes the request, if an answer is expected, and delivers the datagram. The caller holds the lock.
func (f *madFile) send(o *outgoing) error {
	if o.head.IsResponse() {
		f.s.complete(o)
		return nil
	}
	o.head.TID = uint64(o.agent.high)<<32 | o.head.TID&0xffffffff
	o.head.Put(o.data)
	key := o.key()
	if f.sends[key] != nil {
		return refuse(eINVAL, "umad: a request with TID %#x waits for its answer already", o.head.TID)
	}
	if o.user.Timeout > 0 {
		if len(f.sends) == madSends {
			return refuse(eNOMEM, "umad: %d requests wait for answers; more are not possible", madSends)
		}
		f.sends[key] = &madWait{time.AfterFunc(o.patience(), func() { f.timeOut(o) }), o.user.LID}
	}
	f.s.deliver(o)
	return nil
}

func (o *outgoing) key() madSend { return madSend{o.agent.id, o.head.TID, o.head.Class} }

// patience returns how long the request waits, with its retries. An hour is enough for all of them.
func (o *outgoing) patience() time.Duration {
	const most = time.Hour
	ms := uint64(o.user.Timeout) * (uint64(o.user.Retries) + 1)
	return time.Duration(min(ms, uint64(most/time.Millisecond))) * time.Millisecond
}

// timeOut gives the program back the header of its request, as the kernel does.
func (f *madFile) timeOut(o *outgoing) {
	f.s.mads.mu.Lock()
	defer f.s.mads.mu.Unlock()
	if f.sends[o.key()] == nil {
		return
	}
	delete(f.sends, o.key())
	u := o.user
	u.Status = uint32(unix.ETIMEDOUT)
	f.put(u, o.data[:mad.HeaderSize])
}

// answered gives the program the answer to its request, unless nobody waits for it. The caller holds the
// lock.
func (o *outgoing) answered(data []byte) {
	w := o.f.sends[o.key()]
	if w == nil {
		return
	}
	w.timer.Stop()
	delete(o.f.sends, o.key())
	o.f.put(mad.User{ID: o.agent.id, QPN: o.agent.QPN, LID: o.user.LID, SL: o.user.SL}, data)
}

// complete gives a response that a program has written to the request that it answers. The caller holds the
// lock.
func (s *Server) complete(o *outgoing) {
	net := s.subnet()
	own, to := net.portOf(o.f.device), net.withLID(o.user.LID)
	if own == nil || to == nil {
		return
	}
	passes := own.up() && to.up()
	switch {
	case to != own && !passes:
	case to.device == nil && !o.head.Travels():
	case to.device == nil:
		o.leave(own, to)
	default:
		u := mad.User{QPN: o.agent.QPN, LID: own.lid(), SL: o.user.SL}
		s.finish(to.device, u, o.head, o.data)
	}
}

// finish gives a response to the request of a device's agents that waits for it, from the LID in u, and
// reports whether there is one. The caller holds the lock.
func (s *Server) finish(d *device, u mad.User, h mad.Header, data []byte) bool {
	for _, f := range s.mads.files {
		for _, a := range f.agents {
			if a == nil || f.device != d || a.high != uint32(h.TID>>32) {
				continue
			}
			key := madSend{a.id, h.TID, h.Class}
			w := f.sends[key]
			if w == nil || w.lid != u.LID {
				return false
			}
			w.timer.Stop()
			delete(f.sends, key)
			u.ID = a.id
			f.put(u, data)
			return true
		}
	}
	return false
}

// deliver gives a request to the node at its destination, which may answer at once. The caller holds the
// lock.
func (s *Server) deliver(o *outgoing) {
	const version = 1
	subnet := o.head.Class == mad.ClassSMP || o.head.Class == mad.ClassDirected
	if o.head.BaseVersion != version || subnet != (o.agent.QPN == 0) {
		return // the receiver drops it (validate_mad)
	}
	net := s.subnet()
	at, ok := net.find(o)
	if !ok {
		return
	}
	if at.port != nil && at.port.device == nil && !subnet {
		if o.head.Travels() {
			o.leave(net.portOf(o.f.device), at.port)
		}
		return
	}
	answer := net.answer(o, at)
	if answer == nil && at.port != nil && at.port.device != nil {
		if f, a := s.listener(at.port.device, o.head, o.data); f != nil {
			f.put(mad.User{ID: a.id, QPN: o.agent.QPN, LID: o.f.device.lid, SL: o.user.SL}, o.data)
			return
		}
	}
	if answer == nil {
		answer = o.respond(mad.StatusUnsupported, nil)
	}
	if answer != nil {
		o.answered(answer)
	}
}

// respond returns the response to a Get or Set with an attribute, nil if the method has none.
func (o *outgoing) respond(status uint16, attribute []byte) []byte {
	if o.head.Method != mad.Get && o.head.Method != mad.Set && o.head.Method != mad.GetTable {
		return nil
	}
	h := o.head
	h.Method, h.Status = h.Method|mad.Response, status
	if h.Method == mad.Set|mad.Response {
		h.Method = mad.GetResp
	}
	if h.Class == mad.ClassDirected {
		h.Status |= mad.StatusDirection
		h.Specific &= 0xff // the hop pointer is 0 at the requester
	}
	b := append([]byte{}, o.data...)
	h.Put(b)
	if attribute != nil {
		at := mad.DataAt(h.Class)
		clear(b[at:min(len(b), at+mad.SMPDataSize)])
		copy(b[at:], attribute)
	}
	return b
}
