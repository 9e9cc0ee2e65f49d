//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A portSpace is a set of ports, for ids of one kind of queue pair.
type portSpace uint16

// A state is how far an id has come.
type state uint8

const (
	idle state = iota
	bound
	addressResolved
	routeIsResolved
	connecting // from CONNECT or from a request until the end of the connection
	ended      // disconnected
	listening
)

var stateNames = [...]string{"new", "bound", "resolved to an address", "resolved to a route",
	"connecting or connected", "disconnected", "listening"}

func (s state) String() string { return stateNames[s] }

// A step is a command that depends on the state of an id.
type step struct {
	name string
	from []state
	to   state
}

// The steps of an id. Other commands ask for no particular state.
var (
	stepBind    = step{"BIND", []state{idle}, bound}
	stepResolve = step{"RESOLVE_ADDR", []state{idle, bound}, addressResolved}
	stepRoute   = step{"RESOLVE_ROUTE", []state{addressResolved}, routeIsResolved}
	stepPath    = step{"SET_OPTION of a path", []state{addressResolved}, routeIsResolved}
	stepConnect = step{"CONNECT", []state{routeIsResolved}, connecting}
	stepListen  = step{"LISTEN", []state{idle, bound}, listening}
	stepAccept  = step{"ACCEPT", []state{connecting}, connecting}
	stepJoin    = step{"JOIN_MCAST", []state{bound, addressResolved, routeIsResolved}, 0}
)

// may returns an error if the id is not in a state for a step.
func (i *id) may(s step) error {
	if slices.Contains(s.from, i.state) {
		return nil
	}
	var names []string
	for _, f := range s.from {
		names = append(names, f.String())
	}
	return refuse(unix.EINVAL, "%s: id %d is %v; it has to be %s", s.name, i.handle, i.state,
		strings.Join(names, " or "))
}

// An id is one end of a connection, or a listener.
type id struct {
	m       *Manager
	handle  uint32
	channel *Channel
	program *Program // that made it
	uid     uint64   // the program's number for it; 0: the program does not know it yet

	space    portSpace
	qpType   uint8
	state    state
	src      sockaddr
	dst      sockaddr
	local    Entry // of src, if attached
	remote   PortAddress
	path     Path // to remote, if that is elsewhere
	attached bool // to a device: the address is of one

	reuse, only bool // REUSEADDR, AFONLY
	onlySet     bool
	service     uint8 // type of service
	timeout     uint8 // of acknowledgements; 0: not set
	qkey        uint32
	port        *portKey // that the id occupies
	filed       place    // if it occupies one

	reported uint32 // events that the program has read
	backlog  int
	pace     pace // of a listener
	listener *id  // whose request the id is for, until the program has used it
	groups   []*group
	link     *link // the connection, or its beginning
	held     *Held // the wire's address; nil: it is not held
	orphan   bool  // it has only a link, and no program
}

func (i *id) datagram() bool { return i.qpType == qptUD }

func (i *id) explain(format string, args ...any) { i.program.Explain(fmt.Sprintf(format, args...)) }

// qpTypes of the kernel, as far as ids have them: enum ib_qp_type.
const (
	qptRC      = 2
	qptUC      = 3
	qptUD      = 4
	qptXRCSend = 9
	qptXRCRecv = 10
)

// createID serves CREATE_ID. The request is struct rdma_ucm_create_id.
func (m *Manager) createID(c *Call, req []byte) error {
	space := portSpace(le.Uint16(req[abi.CMCreateIDPS:]))
	var qpType uint8
	switch space {
	case abi.CMPSTCP:
		qpType = qptRC
	case abi.CMPSUDP, abi.CMPSIPOIB:
		qpType = qptUD
	case abi.CMPSIB:
		qpType = req[abi.CMCreateIDQPType]
	default:
		return refuse(unix.EINVAL, "CREATE_ID: port space %#x is unknown", uint16(space))
	}
	i, err := m.newID(c.Channel, c.Program, space, qpType)
	if err != nil {
		return err
	}
	i.uid = le.Uint64(req[abi.CMCreateIDUID:])
	c.respond(le.Uint64(req[abi.CMCreateIDResponse:]), le.AppendUint32(nil, i.handle))
	return nil
}

func (m *Manager) newID(ch *Channel, p *Program, space portSpace, qpType uint8) (*id, error) {
	if m.removed {
		return nil, refuse(unix.EIO, "the device has gone")
	}
	if err := m.Accounts.Charge(ch.uid, idCost); err != nil {
		return nil, err
	}
	for m.ids[m.nextID] != nil {
		m.nextID++
	}
	i := &id{m: m, handle: m.nextID, channel: ch, program: p, space: space, qpType: qpType}
	m.nextID++
	m.ids[i.handle] = i
	return i, nil
}

// find returns the id that a command names, which the program uses so.
func (m *Manager) find(c *Call, handle uint32) (*id, error) {
	i, err := m.look(c, handle)
	if err == nil {
		i.used()
	}
	return i, err
}

// look is find for a command by which librdmacm asks before its program knows the id.
func (m *Manager) look(c *Call, handle uint32) (*id, error) {
	i := m.ids[handle]
	switch {
	case i == nil:
		return nil, refuse(unix.ENOENT, "%s: there is no id %d", c.Name(), handle)
	case i.channel != c.Channel:
		return nil, refuse(unix.EINVAL, "%s: id %d is of another channel", c.Name(), handle)
	}
	return i, nil
}

// destroyID serves DESTROY_ID. The answer is how many events of the id the program has read:
// rdma_destroy_id waits until as many have been acknowledged.
func (m *Manager) destroyID(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMDestroyIDID:]))
	if err != nil {
		return err
	}
	m.destroy(i)
	c.respond(le.Uint64(req[abi.CMDestroyIDResponse:]), le.AppendUint32(nil, i.reported))
	return nil
}

// destroy ends an id: its connection, its unread events, its port and its groups.
func (m *Manager) destroy(i *id) {
	if m.ids[i.handle] != i {
		return
	}
	delete(m.ids, i.handle)
	i.unlink()
	i.used()
	for _, e := range i.channel.drop(func(e *event) bool { return e.id == i }) {
		if e.made != nil {
			m.destroy(e.made) // rejects the request
		}
	}
	if i.state == listening && i.port != nil {
		m.remember(*i.port)
	}
	if i.held != nil {
		i.held.Release()
	}
	i.leavePort()
	i.endPace()
	for _, g := range i.groups {
		m.dropGroup(g)
	}
	m.Accounts.Refund(i.channel.uid, idCost)
}

// migrateID serves MIGRATE_ID: an id moves to the channel to which the command is written,
// with the events that the program has not read.
func (m *Manager) migrateID(c *Call, req []byte) error {
	from, err := c.result(Need{Kind: NeedChannel, Addr: uint64(le.Uint32(req[abi.CMMigrateIDFD:]))})
	switch {
	case err != nil:
		return err
	case from.Errno != 0:
		return refuse(from.Errno, "MIGRATE_ID: descriptor %d: %v", int32(le.Uint32(req[abi.CMMigrateIDFD:])),
			from.Errno)
	case from.Channel == nil || !m.channels[from.Channel]:
		return refuse(unix.EINVAL, "MIGRATE_ID: descriptor %d is not of rdma_cm", int32(le.Uint32(req[abi.CMMigrateIDFD:])))
	}
	old := *c
	old.Channel = from.Channel
	i, err := m.find(&old, le.Uint32(req[abi.CMMigrateIDID:]))
	if err != nil {
		return err
	}
	if err := m.move(i, c.Channel); err != nil {
		return err
	}
	c.respond(le.Uint64(req[abi.CMMigrateIDResponse:]), le.AppendUint32(nil, i.reported))
	return nil
}

func (m *Manager) move(i *id, to *Channel) error {
	from := i.channel
	if from == to {
		return nil
	}
	cost := idCost
	for range i.groups {
		cost = cost.Plus(groupCost)
	}
	if err := m.Accounts.Charge(to.uid, cost); err != nil {
		return err
	}
	m.Accounts.Refund(from.uid, cost)
	i.channel = to
	for _, e := range from.drop(func(e *event) bool { return e.id == i }) {
		if e.made != nil { // the new id goes with the request for it
			if m.move(e.made, to) != nil || !to.put(e) {
				m.destroy(e.made)
			}
			continue
		}
		to.put(e)
	}
	return nil
}
