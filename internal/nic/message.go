package nic

import (
	"errors"
	"fmt"
	"net/netip"
)

// A BoxMessage is a message to a box of a client, or from one: see control.BoxMessage.
type BoxMessage struct {
	Device uint64   // GUID of the device whose client has the box; 0: the one at the address GID
	Number uint64   // of the box; 0: of a client that Value names
	GID    [16]byte // an address of the device; zero: none
	User   uint32   // whose client sends it: a uid, or NoUser
	Value  string
}

// Place names the device, for errors.
func (m BoxMessage) Place() string {
	if m.Device == 0 {
		return fmt.Sprintf("the engine at %v", netip.AddrFrom16(m.GID).Unmap())
	}
	return fmt.Sprintf("engine %016x", m.Device)
}

// NoUser stands for a user that is not known: that of messages which come by RoCE, and of clients whose uid
// stands for many users.
const NoUser = ^uint32(0)

// ErrNoWay is wrapped in the error for a message to a device to which no link leads.
var ErrNoWay = errors.New("no link leads there")
