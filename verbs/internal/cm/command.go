//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A command is what a program writes: a header of 8 bytes, and the structure that is its
// request. The address for the response is in the request.
type command struct {
	number   uint32
	name     string
	request  int // least bytes of the request
	known    int // bytes of the request that have a meaning
	response int // least bytes of the response
	run      func(m *Manager, c *Call, req []byte) error
}

const (
	hdrSize = abi.CMHdrSize
	hdrOut  = abi.CMHdrOut
)

var commands []*command

func init() { // not a literal, because commands run code that refers to it
	commands = make([]*command, cmdWriteEvent+1)
	for _, c := range allCommands() {
		commands[c.number] = c
	}
}

func allCommands() []*command {
	return []*command{
		{abi.CMCmdCreateID, "CREATE_ID", abi.CMCreateIDSize, abi.CMCreateIDSize, abi.CMCreateIDRespSize, (*Manager).createID},
		{abi.CMCmdDestroyID, "DESTROY_ID", abi.CMDestroyIDSize, abi.CMDestroyIDSize, abi.CMDestroyIDRespSize, (*Manager).destroyID},
		{abi.CMCmdBindIP, "BIND_IP", abi.CMBindIPSize, abi.CMBindIPSize, 0, (*Manager).bindIP},
		{abi.CMCmdResolveIP, "RESOLVE_IP", abi.CMResolveIPSize, abi.CMResolveIPSize, 0, (*Manager).resolveIP},
		{abi.CMCmdResolveRoute, "RESOLVE_ROUTE", abi.CMResolveRouteSize, abi.CMResolveRouteSize, 0, (*Manager).resolveRoute},
		{abi.CMCmdQueryRoute, "QUERY_ROUTE", abi.CMQuerySize, abi.CMQuerySize, routeBefore, (*Manager).queryRoute},
		{abi.CMCmdConnect, "CONNECT", abi.CMConnectECE, abi.CMConnectSize, 0, (*Manager).connect},
		{abi.CMCmdListen, "LISTEN", abi.CMListenSize, abi.CMListenSize, 0, (*Manager).listen},
		{abi.CMCmdAccept, "ACCEPT", abi.CMAcceptECE, abi.CMAcceptSize, 0, (*Manager).accept},
		{abi.CMCmdReject, "REJECT", abi.CMRejectSize, abi.CMRejectSize, 0, (*Manager).reject},
		{abi.CMCmdDisconnect, "DISCONNECT", abi.CMDisconnectSize, abi.CMDisconnectSize, 0, (*Manager).disconnect},
		{abi.CMCmdInitQPAttr, "INIT_QP_ATTR", abi.CMInitQPAttrSize, abi.CMInitQPAttrSize, abi.UQPAttrSize, (*Manager).initQPAttr},
		{abi.CMCmdGetEvent, "GET_EVENT", abi.CMGetEventSize, abi.CMGetEventSize, eventBefore, (*Manager).getEvent},
		{abi.CMCmdSetOption, "SET_OPTION", abi.CMSetOptionSize, abi.CMSetOptionSize, 0, (*Manager).setOption},
		{abi.CMCmdNotify, "NOTIFY", abi.CMNotifySize, abi.CMNotifySize, 0, (*Manager).notify},
		{abi.CMCmdJoinIPMcast, "JOIN_IP_MCAST", abi.CMJoinIPMcastSize, abi.CMJoinIPMcastSize, abi.CMCreateIDRespSize, (*Manager).joinIP},
		{abi.CMCmdLeaveMcast, "LEAVE_MCAST", abi.CMDestroyIDSize, abi.CMDestroyIDSize, abi.CMDestroyIDRespSize, (*Manager).leave},
		{abi.CMCmdMigrateID, "MIGRATE_ID", abi.CMMigrateIDSize, abi.CMMigrateIDSize, abi.CMMigrateRespSize, (*Manager).migrateID},
		{abi.CMCmdQuery, "QUERY", abi.CMQuerySize, abi.CMQuerySize, 0, (*Manager).query},
		{abi.CMCmdBind, "BIND", abi.CMBindSize, abi.CMBindSize, 0, (*Manager).bind},
		{abi.CMCmdResolveAddr, "RESOLVE_ADDR", abi.CMResolveAddrSize, abi.CMResolveAddrSize, 0, (*Manager).resolveAddr},
		{abi.CMCmdJoinMcast, "JOIN_MCAST", abi.CMJoinMcastSize, abi.CMJoinMcastSize, abi.CMCreateIDRespSize, (*Manager).join},
		{cmdResolveService, "RESOLVE_IB_SERVICE", resolveServiceSize, resolveServiceSize, 0, (*Manager).resolveService},
		{cmdWriteEvent, "WRITE_CM_EVENT", writeEventSize, writeEventSize, 0, (*Manager).writeEvent},
	}
}

// Sizes of responses before fields were added to their ends.
const (
	eventBefore = abi.CMEventRespECE - 4        // without reserved and ece
	addrBefore  = abi.CMQueryAddrRespIbdevIndex // without ibdev_index
	routeBefore = abi.CMQueryRouteRespIbdevIndex
)

// Serve runs the command that a program has written. The error is ErrAgain, or of type
// *Refusal or of Accounts.
func (m *Manager) Serve(c *Call) error {
	w := c.Written
	if len(w) < hdrSize {
		return refuse(unix.EINVAL, "%d bytes were written; a command has at least %d", len(w), hdrSize)
	}
	number, length, room := le.Uint32(w[abi.CMHdrCmd:]), int(le.Uint16(w[abi.CMHdrIn:])),
		int(le.Uint16(w[hdrOut:]))
	switch {
	case uint64(number) >= uint64(len(commands)):
		return expected(unix.EINVAL, "command %d; the last one is %d", number, len(commands)-1)
	case length > len(w)-hdrSize:
		return refuse(unix.EINVAL, "a request of %d bytes; %d were written after the header", length, len(w)-hdrSize)
	case commands[number] == nil:
		return expected(unix.ENOSYS, "command %d: the kernel does not have it either", number)
	}
	k, req := commands[number], w[hdrSize:hdrSize+length]
	switch {
	case room < k.response:
		return refuse(unix.ENOSPC, "%s: room for a response of %d bytes; it has %d", k.name, room, k.response)
	case len(req) < k.request:
		return refuse(unix.EINVAL, "%s: a request of %d bytes; it has at least %d", k.name, len(req), k.request)
	}
	if len(req) < k.known {
		req = append(req[:len(req):len(req)], make([]byte, k.known-len(req))...)
	}
	m.mu.Lock()
	defer m.unlock()
	if !m.channels[c.Channel] {
		return refuse(unix.EBADF, "%s: the channel has been closed", k.name)
	}
	return k.run(m, c, req)
}

// Name returns the name of the command that was written, for the log.
func (c *Call) Name() string {
	if len(c.Written) >= hdrSize {
		if n := le.Uint32(c.Written); uint64(n) < uint64(len(commands)) && commands[n] != nil {
			return commands[n].name
		}
	}
	return "unknown"
}

// Markdown lists the commands, for docs/reference/verbs-calls.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| command | number | request | response |\n| --- | --- | --- | --- |\n")
	for _, c := range commands {
		if c == nil {
			continue
		}
		size := fmt.Sprint(c.request)
		if c.request < c.known {
			size = fmt.Sprintf("%d to %d", c.request, c.known)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %d |\n", c.name, c.number, size, c.response)
	}
	return b.String()
}
