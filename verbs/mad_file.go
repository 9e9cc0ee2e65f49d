//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"sync"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/mad"
	"golang.org/x/sys/unix"
)

// Minor numbers: of umad0, and of issm0.
const (
	umadMinor = 0
	issmMinor = 64
)

// A mads has the open files of management datagrams, of all programs.
type mads struct {
	mu    sync.Mutex // not held while the fabric is asked to send
	files map[uint64]*madFile
	// Returns the counters of a device's port, by their names in sysfs; nil: nothing is counted.
	counters func(*device) map[string]uint64
	reset    map[counterOf]uint64 // values when a program has reset them
	lastTID  uint32               // the agent that was made last has this number in the high half of its TIDs

	far farMADs // of other engines
}

// A madFile is an open of /dev/infiniband/umadN. shim/wire.h says how the program uses its descriptor.
// Server.mads.mu guards the fields after net.
type madFile struct {
	s             *Server
	device        *device
	uid           uint32
	lineage       string
	explained     budget
	inode, cookie uint64   // of the program's end
	socket        *os.File // this server's end

	agents [madAgents]*madAgent
	old    bool // headers have no index of the P_Key
	used   bool // an agent was registered: the form of headers is fixed
	queue  [][]byte
	bytes  int  // of queue
	woken  bool // the program has a byte in its end, or has taken it and not asked yet
	sends  map[madSend]*madWait
	ended  bool
}

// The limits of a file. Programs of infiniband-diags have few datagrams under way (ibnetdiscover 2 by
// default), and the answer of SA that lists most, of all ports that a switch can have, has 28 KiB.
const (
	madAgents = 32 // IB_UMAD_MAX_AGENTS of the kernel
	madQueue  = 256
	madBytes  = 256 << 10
	madSends  = 256
)

// madCost is charged for an open file, with all that it may hold.
var madCost = nic.Cost{Memory: madBytes + madSends*512 + 4096, Descriptors: 2}

// openMAD serves NV_OPEN_MAD.
func (p *process) openMAD(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	if len(b) != openSize {
		return nil, nil, errWire
	}
	minor := le.Uint32(b)
	n := minor % issmMinor
	if n >= uint32(len(p.s.devices)) || minor >= 2*issmMinor {
		return nil, nil, refuse(unix.ENXIO, "umad%d: there are %d devices", n, len(p.s.devices))
	}
	if !isAdmin(p.uid) { // its datagrams reach the agents of all users
		return nil, nil, refuse(unix.EACCES, "umad%d: user %d may not open it: only root and the user of the engine may", n, p.uid)
	}
	if minor >= issmMinor {
		return nil, nil, refuse(ePERM, "issm%d: no program can be the subnet manager, because the fabric "+
			"manages itself: LIDs and paths are there, and a master is said to be at LID %d", n, subnetManagerLID)
	}
	f, theirs, err := p.s.newMADFile(p.s.devices[n], p)
	if err != nil {
		return nil, nil, err
	}
	p.mads[f.inode] = f
	return f.opened(h), []*os.File{theirs}, nil
}

func (f *madFile) opened(h wireHeader) []byte {
	out := le.AppendUint64(appendAnswer(nil, h, 0, 0), f.inode)
	return le.AppendUint32(le.AppendUint32(out, devMajor), umadMinor+f.device.index)
}

func (s *Server) newMADFile(d *device, p *process) (f *madFile, theirs *os.File, err error) {
	if err := s.engine.Charge(p.uid, madCost); err != nil {
		return nil, nil, err
	}
	f = &madFile{s: s, device: d, uid: p.uid, lineage: p.lineage, old: true,
		sends: make(map[madSend]*madWait)}
	f.socket, theirs, err = unixsock.Pair("umad")
	if err == nil {
		f.inode, err = inodeOf(theirs)
	}
	if err == nil {
		f.cookie, err = cookieOf(theirs)
	}
	if err != nil {
		s.engine.Refund(p.uid, madCost)
		_ = closeFiles(f.socket, theirs)
		return nil, nil, err
	}
	// A write to the socket without the shim is refused with EPIPE.
	_ = unixsock.Control(f.socket, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) })
	s.mads.mu.Lock()
	s.mads.files[f.inode] = f
	s.mads.mu.Unlock()
	go f.await()
	return f, theirs, nil
}

// await waits until the last copy of the program's end is closed, and ends the file.
func (f *madFile) await() {
	if raw, err := f.socket.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) bool { return f.hungUp() })
	}
	f.end()
}

func (f *madFile) hungUp() (up bool) {
	_ = unixsock.Control(f.socket, func(fd int) error {
		up = unixsock.HungUp(fd)
		return nil
	})
	return up
}

// end drops all that the file holds.
func (f *madFile) end() {
	f.s.mads.mu.Lock()
	defer f.s.mads.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	if f.s.mads.files[f.inode] == f {
		delete(f.s.mads.files, f.inode)
	}
	for _, w := range f.sends {
		w.timer.Stop()
	}
	f.queue = nil
	f.s.engine.Refund(f.uid, madCost)
	_ = f.socket.Close()
}

// endClosedMADs ends files whose descriptor is closed, and drops those that have ended.
func (p *process) endClosedMADs() {
	for inode, f := range p.mads {
		if f.hungUp() {
			f.end()
		}
		p.s.mads.mu.Lock()
		if f.ended {
			delete(p.mads, inode)
		}
		p.s.mads.mu.Unlock()
	}
}

// closeMADs ends every file.
func (s *Server) closeMADs() {
	s.mads.mu.Lock()
	var open []*madFile
	for _, f := range s.mads.files {
		open = append(open, f)
	}
	s.mads.mu.Unlock()
	for _, f := range open {
		f.end()
	}
}

// madFileOf returns the file that a descriptor is of, nil if it is of none.
func (s *Server) madFileOf(inode, cookie uint64) *madFile {
	s.mads.mu.Lock()
	defer s.mads.mu.Unlock()
	if f := s.mads.files[inode]; f != nil && f.cookie == cookie {
		return f
	}
	return nil
}

// headerSize returns how long the header before a datagram is in this file.
func (f *madFile) headerSize() int {
	if f.old {
		return mad.OldUserSize
	}
	return mad.UserSize
}

// put queues a datagram, unless the queue is full. The caller holds the lock.
func (f *madFile) put(u mad.User, data []byte) (ok bool) {
	if f.ended || len(f.queue) == madQueue || f.bytes+len(data) > madBytes {
		return false
	}
	n := f.headerSize()
	u.Length = uint32(n + len(data))
	b := make([]byte, n, n+len(data))
	u.Put(b)
	f.queue = append(f.queue, append(b, data...))
	f.bytes += len(data)
	f.wake()
	return true
}

// wake sends the program a byte if a datagram waits and the program has none. The socket has room for one.
func (f *madFile) wake() {
	if len(f.queue) == 0 || f.woken {
		return
	}
	f.woken = true
	_ = unixsock.Control(f.socket, func(fd int) error {
		return unix.Sendto(fd, []byte{0}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	})
}

// A madRequest is an nv_mad.
type madRequest struct {
	arg, count uint64
	request    uint32
	unreadable bool
	bytes      []byte
}

const (
	madSize = 24 + madArg
	madArg  = 40
)

// madCall parses a request about a file.
func (p *process) madCall(h wireHeader, b []byte) (f *madFile, m madRequest, err error) {
	if len(b) != madSize {
		return nil, m, errWire
	}
	p.endClosedMADs()
	f = p.mads[h.context]
	if f == nil {
		return nil, m, refuse(eBADF, "umad %d: this process has not opened it", h.context)
	}
	m = madRequest{le.Uint64(b), le.Uint64(b[8:]), le.Uint32(b[16:]), le.Uint32(b[20:]) != 0, b[24:]}
	return f, m, nil
}

// stores returns an answer that has the shim write bytes to the program's memory. errno may be 0.
func (m *madRequest) stores(h wireHeader, errno unix.Errno, addr uint64, b []byte) []byte {
	flags := uint16(0)
	if errno != 0 {
		flags = flagFailed
	}
	out := le.AppendUint64(appendAnswer(nil, h, flags, int32(errno)), 1)
	return (&wireOut{kind: outBytes, value: addr, bytes: b}).append(out)
}

// readMAD serves NV_MAD_READ, with the kernel's results: a datagram that does not fit stays, and of one with
// several segments the first is written.
func (p *process) readMAD(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	f, m, err := p.madCall(h, b)
	if err != nil {
		return nil, nil, err
	}
	p.s.mads.mu.Lock()
	defer p.s.mads.mu.Unlock()
	f.woken = false
	defer f.wake()
	if len(f.queue) == 0 {
		return nil, nil, expected(eAGAIN, "umad: nothing to read")
	}
	first := f.queue[0]
	one := min(len(first), f.headerSize()+mad.Size)
	switch {
	case m.count < uint64(one):
		return nil, nil, refuse(eINVAL, "umad: a buffer of %d bytes, and the datagram has %d", m.count, len(first))
	case m.count < uint64(len(first)):
		return m.stores(h, eNOSPC, m.arg, first[:one]), nil, nil
	}
	f.queue = f.queue[1:]
	f.bytes -= len(first) - f.headerSize()
	return m.stores(h, 0, m.arg, first), nil, nil
}

// explain reports to watchers of the program why its request is not served.
func (f *madFile) explain(format string, args ...any) {
	if more, ok := f.explained.spend(); ok {
		f.s.watched.send(f.lineage, f.uid, "umad%d: %s%s", f.device.index, fmt.Sprintf(format, args...), more)
	}
}
