//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/mad"
	"golang.org/x/sys/unix"
)

// A madAgent is what a program has registered in a file.
type madAgent struct {
	mad.Registration
	id uint32
	// The high half of the TID of each request, so that the answer finds the agent.
	high uint32
}

// ioctlMAD serves NV_MAD_IOCTL, in the order of the kernel's checks (ib_umad_reg_agent).
func (p *process) ioctlMAD(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	f, m, err := p.madCall(h, b)
	if err != nil {
		return nil, nil, err
	}
	if m.unreadable {
		return nil, nil, refuse(eFAULT, "umad: no argument at %#x", m.arg)
	}
	done := le.AppendUint64(appendAnswer(nil, h, 0, 0), 0)
	p.s.mads.mu.Lock()
	defer p.s.mads.mu.Unlock()
	switch m.request {
	case mad.EnablePKey:
		if f.used {
			return nil, nil, refuse(eINVAL, "umad: the header gets a P_Key index only before the first agent")
		}
		f.old = false
		return done, nil, nil
	case mad.UnregisterAgent:
		return done, nil, f.unregister(le.Uint32(m.bytes))
	case mad.RegisterAgent:
		return f.register(h, m, mad.ParseRegister(m.bytes))
	case mad.RegisterAgent2:
		r := mad.ParseRegister2(m.bytes)
		const userRMPP, flagsAt = 1, 12
		if r.Flags&^userRMPP != 0 {
			return m.stores(h, eINVAL, m.arg+flagsAt, le.AppendUint32(nil, userRMPP)), nil, nil
		}
		if r.OUI > 0xffffff {
			return nil, nil, refuse(eINVAL, "umad: OUI %#x has more than 24 bits", r.OUI)
		}
		if !f.used {
			f.old = false
		}
		return f.register(h, m, r)
	}
	return nil, nil, expected(unix.ENOTTY, "umad: ioctl %#x", m.request)
}

func (f *madFile) register(h wireHeader, m madRequest, r mad.Registration) ([]byte, []*os.File, error) {
	id := 0
	for id < madAgents && f.agents[id] != nil {
		id++
	}
	switch {
	case r.QPN > 1:
		return nil, nil, refuse(eINVAL, "umad: queue pair %d; 0 and 1 are possible", r.QPN)
	case id == madAgents:
		return nil, nil, refuse(eNOMEM, "umad: a file has at most %d agents", madAgents)
	}
	if err := f.mayRegister(&r); err != nil {
		return nil, nil, err
	}
	f.s.mads.lastTID++
	f.agents[id] = &madAgent{r, uint32(id), f.s.mads.lastTID & 0xffffff}
	f.used = true
	return m.stores(h, 0, m.arg, le.AppendUint32(nil, uint32(id))), nil, nil
}

// mayRegister has the checks of ib_register_mad_agent.
func (f *madFile) mayRegister(r *mad.Registration) error {
	const versions, classes = 0x83, 0x50
	subnet := r.Class == mad.ClassSMP || r.Class == mad.ClassDirected
	vendor := r.Class >= 0x30 && r.Class <= 0x4f
	switch {
	case r.QPN == 0 && f.device.lid == 0:
		return refuse(ePROTONOSUPPORT, "umad: a port of RoCE has no queue pair 0 (subnet management)")
	case r.RMPP > 1:
		return refuse(eINVAL, "umad: RMPP version %d; 0 and 1 are possible", r.RMPP)
	case r.Version >= versions:
		return refuse(eINVAL, "umad: class version %#x; it is less than %#x", r.Version, versions)
	case r.Class >= classes && !subnet:
		return refuse(eINVAL, "umad: management class %#x", r.Class)
	case vendor && r.OUI == 0:
		return refuse(eINVAL, "umad: vendor class %#x without an OUI", r.Class)
	case r.RMPP != 0 && !hasRMPP(r.Class):
		return refuse(eINVAL, "umad: class %#x has no RMPP", r.Class)
	case r.Class != 0 && subnet != (r.QPN == 0):
		return refuse(eINVAL, "umad: class %#x is not one of queue pair %d", r.Class, r.QPN)
	}
	return f.s.methodsFree(f.device, r)
}

// hasRMPP reports whether datagrams of a class can have several segments (ib_is_mad_class_rmpp).
func hasRMPP(class uint8) bool {
	switch class {
	case mad.ClassSA, 0x06, 0x10, 0x12:
		return true
	}
	return class >= 0x30 && class <= 0x4f
}

// methodsFree returns an error if another agent of the port gets unsolicited datagrams of one of the methods.
func (s *Server) methodsFree(d *device, r *mad.Registration) error {
	for _, f := range s.mads.files {
		for _, a := range f.agents {
			if a == nil || f.device != d || !a.same(r) {
				continue
			}
			if a.Methods[0]&r.Methods[0] != 0 || a.Methods[1]&r.Methods[1] != 0 {
				return refuse(eINVAL, "umad: another agent of %s has a method of class %#x version %d", d.name, r.Class, r.Version)
			}
		}
	}
	return nil
}

// same reports whether both are of one class, version and, of vendors, organization.
func (a *madAgent) same(r *mad.Registration) bool {
	vendor := r.Class >= 0x30 && r.Class <= 0x4f
	return a.Class == r.Class && a.Version == r.Version && (!vendor || a.OUI == r.OUI)
}

func (f *madFile) unregister(id uint32) error {
	if id >= madAgents || f.agents[id] == nil {
		return refuse(eINVAL, "umad: agent %d is not registered", id)
	}
	for key, w := range f.sends {
		if key.agent == id {
			w.timer.Stop()
			delete(f.sends, key)
		}
	}
	f.agents[id] = nil
	return nil
}

// listener returns the agent of a port that gets an unsolicited datagram, nil if none does.
func (s *Server) listener(d *device, h mad.Header, data []byte) (*madFile, *madAgent) {
	r := mad.Registration{Class: h.Class, Version: h.ClassVersion}
	if h.Class >= 0x30 && h.Class <= 0x4f {
		r.OUI = mad.OUI(data)
	}
	for _, f := range s.mads.files {
		for _, a := range f.agents {
			if a != nil && f.device == d && a.same(&r) && a.Has(h.Method) {
				return f, a
			}
		}
	}
	return nil, nil
}
