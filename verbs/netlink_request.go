//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"syscall"

	"github.com/nicless/nicless/verbs/internal/nldev"
	"golang.org/x/sys/unix"
)

// Requests of NETLINK_RDMA. The order of the checks is the kernel's (rdma_nl_rcv_skb and rdma_nl_rcv_msg in
// drivers/infiniband/core/netlink.c), so that errors have the kernel's numbers.

// A netlinkCall is one request being served.
type netlinkCall struct {
	k       *netlinkSocket
	message nldev.Message
	port    uint32 // the requester's port id
	attrs   nldev.Attributes
}

// A netlinkCommand is a command that the kernel has. Its functions are nil if the kernel has not that form
// of it.
type netlinkCommand struct {
	get  func(*netlinkCall) (nldev.List, error)   // answers with one message
	dump func(*netlinkCall) (*netlinkDump, error) // answers with many

	answer int    // the command in the type of get's message; 0: the same
	admin  bool   // needs CAP_NET_ADMIN in the kernel
	strict bool   // attributes are checked strictly
	why    string // why this server does not change what the command changes
}

// netlinkCommands has the commands by number.
var netlinkCommands map[int]*netlinkCommand

func init() { // not a literal, because the functions refer to it
	netlinkCommands = map[int]*netlinkCommand{
		nldev.CmdGet: {get: getDevice, dump: dumpDevices},
		// The kernel answers with the other command's number.
		nldev.CmdPortGet:       {get: getPort, dump: dumpPorts, answer: nldev.CmdGet},
		nldev.CmdSysGet:        {get: getSystem, strict: true},
		nldev.CmdGetCharDev:    {get: getCharDev, strict: true},
		nldev.CmdResGet:        {get: getSummary, dump: dumpSummary},
		nldev.CmdStatGet:       {get: getCounters, dump: dumpCounters, strict: true},
		nldev.CmdStatGetStatus: {get: getCounterStatus, strict: true},
		nldev.CmdSet:           refused("devices have the names that --device-name of nicless run or nicless engine gives them, and stay in their namespace"),
		nldev.CmdNewLink:       refused("the devices are those of the engine; --devices of nicless run or nicless engine makes more, and rxe and siw need the kernel"),
		nldev.CmdDelLink:       refused("the devices are those of the engine, and end with it"),
		nldev.CmdSysSet:        refused("all network namespaces share the devices, and no Q_Key is privileged"),
		nldev.CmdStatSet:       refused("counters count a port, and not chosen queue pairs; nicless trace shows each queue pair's work"),
		nldev.CmdStatDel:       refused("counters count a port, and not chosen queue pairs; nicless trace shows each queue pair's work"),
		nldev.CmdNewDev:        refused("the devices are those of the engine; --devices of nicless run or nicless engine makes more"),
		nldev.CmdDelDev:        refused("the devices are those of the engine, and end with it"),
		// A driver without a function for this answers so.
		nldev.CmdResQPGetRaw:  raw(),
		nldev.CmdResCQGetRaw:  raw(),
		nldev.CmdResMRGetRaw:  raw(),
		nldev.CmdResSRQGetRaw: raw(),
	}
	for kind, t := range nldev.Tables {
		netlinkCommands[t.Cmd] = &netlinkCommand{
			get:  func(c *netlinkCall) (nldev.List, error) { return c.getResource(kind) },
			dump: func(c *netlinkCall) (*netlinkDump, error) { return c.dumpResources(kind) },
		}
	}
}

func refused(why string) *netlinkCommand {
	return &netlinkCommand{admin: true, why: why,
		get: func(*netlinkCall) (nldev.List, error) { return nil, eOPNOTSUPP }}
}

func raw() *netlinkCommand {
	return &netlinkCommand{admin: true, get: func(*netlinkCall) (nldev.List, error) { return nil, eINVAL },
		dump: func(*netlinkCall) (*netlinkDump, error) { return nil, eINVAL }}
}

// take takes a datagram that has arrived, and serves its requests. It reports false if that is not possible.
func (k *netlinkSocket) take(raw syscall.RawConn) bool {
	buffer := netlinkBuffers.Get().(*[netlinkRequest]byte)
	defer netlinkBuffers.Put(buffer)
	var n, flags int
	var err error
	failed := raw.Control(func(fd uintptr) {
		n, _, flags, _, err = unix.Recvmsg(int(fd), buffer[:], nil, unix.MSG_DONTWAIT)
	})
	if failed != nil || (err != nil && err != unix.EINTR && err != unix.EAGAIN) {
		return false
	}
	if err == nil && flags&unix.MSG_TRUNC == 0 {
		k.serveDatagram(buffer[:n])
	}
	return true
}

// serveDatagram serves the requests of a datagram in their order.
func (k *netlinkSocket) serveDatagram(datagram []byte) {
	for {
		m, rest, ok := nldev.Next(datagram)
		if !ok {
			return
		}
		datagram = rest
		k.serveMessage(m)
	}
}

func (k *netlinkSocket) serveMessage(m nldev.Message) {
	c := &netlinkCall{k: k, message: m, port: k.portID()}
	dumps := false
	var err error
	if m.Executes() {
		dumps, err = c.execute()
	}
	// A dump that has begun has its own end.
	if err != nil || (m.Flags&nldev.FlagAck != 0 && !dumps) {
		c.acknowledge(err)
	}
}

// acknowledge sends the acknowledgement that a request was served, or not.
func (c *netlinkCall) acknowledge(err error) {
	errno, text := errnoOf(err)
	style := nldev.AckStyle{Capped: c.k.has(unix.NETLINK_CAP_ACK), Extended: c.k.has(unix.NETLINK_EXT_ACK)}
	c.k.send(nldev.AppendAck(nil, c.message, c.port, style, errno, text))
}

func errnoOf(err error) (errno unix.Errno, text string) {
	var p *nldev.ParseError
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &p):
		return p.Errno, p.Text
	case errors.As(err, &errno):
		return errno, ""
	}
	return refusalOf(err).errno, ""
}

// execute serves one request. dumps is whether it is answered by a dump.
func (c *netlinkCall) execute() (dumps bool, err error) {
	number, ok := c.message.Command()
	command := netlinkCommands[number]
	wantsDump := c.message.Flags&nldev.FlagDump != 0
	switch {
	case !ok || command == nil:
		return false, eINVAL
	case command.admin && !c.k.isAdmin():
		return false, ePERM
	case wantsDump && command.dump == nil, !wantsDump && command.get == nil:
		return false, eINVAL
	}
	if command.why != "" {
		c.k.explain(eOPNOTSUPP, "netlink command %d: %s", number, command.why)
	}
	c.attrs, err = nldev.Parse(c.message, command.strict)
	if wantsDump {
		return c.dump(command, err)
	}
	if p := (*nldev.ParseError)(nil); errors.As(err, &p) && number != nldev.CmdSysGet {
		p.Errno = eINVAL
	}
	var answer nldev.List
	if err == nil {
		answer, err = command.get(c)
	}
	if err != nil {
		return false, err
	}
	if command.answer != 0 {
		number = command.answer
	}
	c.k.send(nldev.AppendAnswer(nil, c.message.Header, c.port, number, false, answer))
	return false, nil
}

// dump begins a dump. Its errors are in its end, as in the kernel, except that another one is not sent yet.
func (c *netlinkCall) dump(command *netlinkCommand, err error) (bool, error) {
	d := &netlinkDump{}
	if err == nil {
		var begun *netlinkDump
		if begun, err = command.dump(c); err == nil {
			d = begun
		}
	} else {
		err = eINVAL
	}
	errno, _ := errnoOf(err)
	body, ended := d.next, false
	header, port := c.message.Header, c.port
	d.next = func() []byte {
		if ended {
			return nil
		}
		if body != nil && errno == 0 {
			if b := body(); b != nil {
				return b
			}
		}
		ended = true
		return nldev.AppendDone(nil, header, port, errno)
	}
	if !c.k.startDump(d) {
		c.k.s.engine.Refund(c.k.uid, d.cost)
		return false, eBUSY
	}
	return true, nil
}

// once returns a dump of messages that are there already.
func (c *netlinkCall) once(cmd int, all ...nldev.List) *netlinkDump {
	return &netlinkDump{next: func() (datagram []byte) {
		for len(all) > 0 {
			next := nldev.AppendAnswer(datagram, c.message.Header, c.port, cmd, true, all[0])
			if len(next) > nldev.MaxMessage && datagram != nil {
				break
			}
			datagram, all = next, all[1:]
		}
		return datagram
	}}
}
