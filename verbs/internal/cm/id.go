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

// A state is the state of an id (enum rdma_cm_state in the kernel).
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

// A step is a command that is allowed in some states of an id only.
type step struct {
	name string
	from []state // the states in which it is allowed
	to   state   // the state after it
}

// The steps of an id. Other commands are allowed in every state.
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

// checkState returns an error if the id is not in a state for a step.
func (i *id) checkState(s step) error {
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
	program *Program // the program that made the id
	uid     uint64   // the program's own number for the id; 0: the program does not know the id yet

	space    portSpace
	qpType   uint8
	state    state
	src      sockaddr
	dst      sockaddr
	attached bool  // src is an address of a device
	local    Entry // the device's entry for src, if attached
	remote   PortAddress
	path     Path // the path to remote, if remote is elsewhere

	reuse, only bool     // the options REUSEADDR and AFONLY
	onlySet     bool     // the program has set AFONLY
	service     uint8    // type of service
	timeout     uint8    // timeout of acknowledgements; 0: not set
	qkey        uint32   // the Q_Key that was agreed on; 0: the default
	port        *portKey // the port that the id occupies; nil: none
	indexedAs   indexKey // where the id is in the index of its port, if it has one (holders.go)

	reported uint32 // number of events that the program has read
	groups   []*group
	link     *link // the connection, or its beginning; nil: none
	held     *Held // the address at which the wire expects datagrams for the id; nil: none
	detached bool  // the id has only a link, and no program (detached.go)

	// Of a listener: how many more requests may wait to be read, and the requests from elsewhere that wait
	// for their turn.
	backlog  int
	requests requestQueue
	// Of an id that was made for a request: the listener, until the program has used the id. Otherwise nil.
	listener *id
}

func (i *id) datagram() bool { return i.qpType == qptUD }

func (i *id) explain(format string, args ...any) { i.program.Explain(fmt.Sprintf(format, args...)) }

// The types of queue pairs that ids can have: enum ib_qp_type of the kernel.
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

// newID makes an id for a program, and charges the user of the channel.
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

// find returns the id that a command names, and notes that the program has used the id.
func (m *Manager) find(c *Call, handle uint32) (*id, error) {
	i, err := m.lookUp(c, handle)
	if err == nil {
		i.noteUsed()
	}
	return i, err
}

// lookUp is find without the note. It is for commands that librdmacm sends before its program knows the id.
func (m *Manager) lookUp(c *Call, handle uint32) (*id, error) {
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
	i.noteUsed()
	for _, e := range i.channel.drop(func(e *event) bool { return e.id == i }) {
		if e.newID != nil {
			m.destroy(e.newID) // rejects the request
		}
	}
	if i.state == listening && i.port != nil {
		m.noteListenerEnded(*i.port)
	}
	if i.held != nil {
		i.held.Release()
	}
	i.leavePort()
	i.endQueue()
	for _, g := range i.groups {
		m.dropGroup(g)
	}
	m.Accounts.Refund(i.channel.uid, idCost)
}

// migrateID serves MIGRATE_ID: an id moves to the channel to which the command is written,
// with the events that the program has not read.
func (m *Manager) migrateID(c *Call, req []byte) error {
	fd := le.Uint32(req[abi.CMMigrateIDFD:])
	from, err := c.result(Need{Kind: NeedChannel, Addr: uint64(fd)})
	switch {
	case err != nil:
		return err
	case from.Errno != 0:
		return refuse(from.Errno, "MIGRATE_ID: descriptor %d: %v", int32(fd), from.Errno)
	case from.Channel == nil || !m.channels[from.Channel]:
		return refuse(unix.EINVAL, "MIGRATE_ID: descriptor %d is not of rdma_cm", int32(fd))
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

// move moves an id, its unread events and the ids that were made for these events to another channel.
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
		if e.newID != nil { // a new id moves together with its request
			if m.move(e.newID, to) != nil || !to.put(e) {
				m.destroy(e.newID)
			}
			continue
		}
		to.put(e)
	}
	return nil
}
