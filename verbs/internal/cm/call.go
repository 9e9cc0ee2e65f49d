//go:build linux && (amd64 || arm64)

package cm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A Program is a process that makes calls. All programs with the same Namespace are in the
// same network namespace.
type Program struct {
	UID       uint32
	Namespace Namespace
	Network   Network
	LowPorts  func() bool       // whether it may take ports below 1024
	Explain   func(text string) // explains to its user why a connection failed
	Owner     any               // the program, as the Wire knows it
}

// A Call is one write of a program to a channel.
type Call struct {
	Program *Program
	Channel *Channel
	Written []byte // the beginning of what was written, at most MaxWrite bytes
	Results []Result

	Stores []Store // the answer: what to write to the program's memory
	Needs  []Need  // what to do before the call is made again
}

// MaxWrite is how many bytes of a write a Call needs. The longest command is shorter.
const MaxWrite = 1024

// A Store is bytes for the program's memory.
type Store struct {
	Addr  uint64
	Bytes []byte
}

// A NeedKind is what the program's process has to do.
type NeedKind uint8

const (
	// NeedToken: take one byte from the channel's descriptor, waiting for it as the
	// descriptor does.
	NeedToken NeedKind = iota + 1
	// NeedRoute: find out from which address the kernel sends to another. Bytes are two
	// struct sockaddr_in6 or sockaddr_in of RouteSize bytes together: the address to send
	// from, whose family is 0 if any will do, and the address to send to. The result is one
	// of them.
	NeedRoute
	// NeedBytes: read Length bytes at Addr of the program's memory.
	NeedBytes
	// NeedChannel: find the channel whose descriptor has the number Addr in the program.
	NeedChannel
	// NeedAddresses: look whether the network namespace has got other addresses.
	NeedAddresses
)

// Sizes of an address in NeedRoute and in its result, and of both addresses.
const (
	addressRoom = 32
	RouteSize   = 2 * addressRoom
)

// A Need is something that only the program's process can do.
type Need struct {
	Kind   NeedKind
	Addr   uint64
	Length uint64
	Bytes  []byte
}

// A Result is the outcome of a need.
type Result struct {
	Kind    NeedKind
	Errno   unix.Errno // 0 or the reason why it failed
	Bytes   []byte
	Channel *Channel
}

// ErrAgain is returned when the needs of a call have to be satisfied first.
var ErrAgain = errors.New("needs are not met yet")

// A Refusal is an error for a program: the number is for the program, the text for its user.
type Refusal struct {
	Errno unix.Errno
	Text  string
	Quiet bool // ordinary programs cause it
}

func (r *Refusal) Error() string { return r.Text }

func refuse(errno unix.Errno, format string, args ...any) error {
	return &Refusal{Errno: errno, Text: fmt.Sprintf(format, args...)}
}

func expected(errno unix.Errno, format string, args ...any) error {
	return &Refusal{Errno: errno, Text: fmt.Sprintf(format, args...), Quiet: true}
}

// result returns the result of a need. If there is none yet, it adds the need to the call.
func (c *Call) result(n Need) (Result, error) {
	for _, r := range c.Results {
		if r.Kind == n.Kind {
			return r, nil
		}
	}
	c.Needs = append(c.Needs, n)
	return Result{}, ErrAgain
}

// respond adds the response of a command to the answer. Not more is stored than the program
// has room for.
func (c *Call) respond(addr uint64, b []byte) {
	room := int(le.Uint16(c.Written[hdrOut:]))
	c.Stores = append(c.Stores, Store{addr, b[:min(len(b), room)]})
}
