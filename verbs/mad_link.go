//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/verbs/internal/mad"
)

// Datagrams of the general services (all but those of the subnet) travel between the InfiniBand ports of
// engines as packets for queue pair 1, beside those of the connection manager. Only ports that links know
// are heard. They are no more than ports of a fabric: they can ask for counters, ping, and answer what was
// asked of them. Each engine has its own switch, so datagrams of the subnet and of SA do not leave it.

// Datagrams of other engines that are looked at in a second. Each takes 3 us under the lock that programs
// with an open umad need, too.
const (
	farPerSecond  = 100000 // of one engine: ibping -f in a pool sends up to 60,000, one in 17 us
	allPerSecond  = 150000 // of all: half of the time is left for the programs
	ownPerSecond  = 100    // of one engine in any case, whatever others send: diagnostics send some
	lostPerSecond = 1000   // of all strangers together: those of a port that has just come or gone
)

// subnetShare is the part of the time that may be spent on finding out the subnet for datagrams of others:
// one in so many. With 4000 ports of others that takes milliseconds.
const subnetShare = 20

// longestSubnet is for how long a subnet counts at most, however long the thread had no core meanwhile.
const longestSubnet = 200 * time.Millisecond

// farMADs count the datagrams of other engines. Server.mads.mu guards all but psn and unsent.
type farMADs struct {
	psn    atomic.Uint32
	unsent atomic.Uint64 // to other engines, because the link had no room or is down

	net   *subnet // the subnet, which counts until fresh
	fresh time.Time

	began time.Time      // of the second that is counted
	spent map[uint64]int // in this second, by the GUID of the engine; 0: strangers
	all   int            // in this second

	strangers  uint64 // not from one port to another of this subnet, which are both up
	malformed  uint64 // of another version, or of a class that does not travel between engines
	overBudget uint64
	unasked    uint64 // responses for which nobody waits
	unread     uint64 // for a program that does not read
}

// leave has the datagram go to a port of another engine, when the lock is not held any more.
func (o *outgoing) leave(from, to *subnetPort) {
	o.away = &RemotePort{GID: to.gid(), LID: to.lid(), From: from.gid()}
}

// sendMAD sends a datagram to queue pair 1 of a port of another engine. If that fails it is lost, as on
// any network. The caller does not hold the lock.
func (s *Server) sendMAD(to RemotePort, data []byte) {
	var head [gsiHead]byte
	var grh [grhSize]byte
	putGSI(&head, &grh, s.mads.far.psn.Add(1), to.From, to.GID)
	if s.fabric.SendManagement(to, head[:], grh[:], data) != nil {
		s.mads.far.unsent.Add(1)
	}
}

// receiveMAD takes a datagram of mad.Size bytes that has come over a link from one GID to another, and
// answers it or gives it to the program that it is for.
func (s *Server) receiveMAD(from, to [gidSize]byte, data []byte) {
	if o := s.takeFar(from, to, data); o != nil {
		s.sendMAD(*o.away, o.data)
	}
}

// takeFar does what receiveMAD does, but for sending the answer, which it returns.
func (s *Server) takeFar(from, to [gidSize]byte, data []byte) (answer *outgoing) {
	s.mads.mu.Lock()
	defer s.mads.mu.Unlock()
	now := time.Now()
	far, net := &s.mads.far, s.farSubnet(now)
	peer := net.port(func(p *subnetPort) bool { return p.device == nil && p.gid() == from })
	own := net.port(func(p *subnetPort) bool { return p.device != nil && p.gid() == to })
	h, engine := mad.ParseHeader(data), uint64(0)
	if peer != nil {
		engine = peer.far.Engine
	}
	switch {
	case !far.spend(engine, now):
		far.overBudget++
	case peer == nil || own == nil || !own.up():
		far.strangers++
	case h.BaseVersion != 1 || !h.Travels():
		far.malformed++
	case h.IsResponse():
		if !s.finish(own.device, mad.User{QPN: gsiQPN, LID: peer.lid()}, h, data) {
			far.unasked++
		}
	default:
		return s.serveFar(net, own, peer, h, data)
	}
	return nil
}

// farSubnet is subnet, of a short time ago if it takes long to find it out. The lock is held.
func (s *Server) farSubnet(now time.Time) *subnet {
	f := &s.mads.far
	if f.net == nil || now.After(f.fresh) {
		f.net = s.subnet()
		f.fresh = now.Add(min(subnetShare*time.Since(now), longestSubnet))
	}
	return f.net
}

// spend reports whether one more datagram of an engine is looked at, and counts it.
func (f *farMADs) spend(engine uint64, now time.Time) bool {
	if f.spent == nil || now.Sub(f.began) >= time.Second {
		f.began, f.spent, f.all = now, make(map[uint64]int), 0
	}
	f.spent[engine]++
	n := f.spent[engine]
	switch {
	case engine == 0:
		return n <= lostPerSecond
	case n <= ownPerSecond:
		return true
	case n > farPerSecond || f.all >= allPerSecond:
		return false
	}
	f.all++
	return true
}

// serveFar gives a request to the port's counters, or to the agent that has its method. It returns the
// answer, if there is one now.
func (s *Server) serveFar(net *subnet, own, peer *subnetPort, h mad.Header, data []byte) *outgoing {
	o := &outgoing{head: h, data: data, user: mad.User{LID: own.lid()}}
	var b []byte
	if h.Class == mad.ClassPM {
		b = net.answerPM(o, subnetNode{own, 1})
	}
	if b == nil {
		if f, a := s.listener(own.device, h, data); f != nil {
			if !f.put(mad.User{ID: a.id, QPN: gsiQPN, LID: peer.lid()}, data) {
				s.mads.far.unread++
			}
			return nil
		}
		b = o.respond(mad.StatusUnsupported, nil)
	}
	if b == nil {
		return nil
	}
	o.data = b
	o.leave(own, peer)
	return o
}

// farNotes describes in sentences which datagrams of other engines were dropped.
func (s *Server) farNotes() (notes []string) {
	s.mads.mu.Lock()
	defer s.mads.mu.Unlock()
	f := &s.mads.far
	for _, row := range []struct {
		n    uint64
		text string
	}{
		{f.strangers, "from or to a port that is not in the subnet, or is down"},
		{f.malformed, "of another version, or of a class that does not travel between engines"},
		{f.overBudget, fmt.Sprintf("because their engine has sent more than %d in a second, all together more than %d, or strangers more than %d", farPerSecond, allPerSecond, lostPerSecond)},
		{f.unasked, "that answer what nobody has asked"},
		{f.unread, "because the program that they are for does not read"},
		{f.unsent.Load(), "to other engines, because the link had no room or was down"},
	} {
		if row.n > 0 {
			notes = append(notes, fmt.Sprintf("management datagrams that were dropped, %s: %d", row.text, row.n))
		}
	}
	if n := s.subnet().left; n > 0 {
		notes = append(notes, fmt.Sprintf("InfiniBand ports of other engines to which nothing leads, because "+
			"another port has their LID or GID: %d; start this engine with another --guid", n))
	}
	return notes
}
