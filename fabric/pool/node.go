package pool

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc64"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxAddresses is how many addresses of a node the others get.
	MaxAddresses = 128

	nameSize     = 64
	headSize     = 64 + nameSize // of a description
	addressSize  = 24
	describeSize = headSize + MaxAddresses*addressSize

	mostDead = 24 * 3600 * 1000 // milliseconds: as good as never

	// Flags of a description.
	flagWakes = 1 // the node keeps what shm.JoinBarrier promises
	flagNames = 2 // its part says which nodes its table names; engines of earlier releases do not say it
)

// A description is what a node says of itself.
type description struct {
	guid      uint64
	host      uint64        // of the running kernel: two nodes with the same one can wake each other; 0: none
	mtu       int           // most bytes of payload that the node accepts
	wakes     bool          // its engine's threads take part in memory barriers of other processes
	names     bool          // its part says which nodes its table names (names.go)
	epoch     uint64        // of the life that the node is in
	dead      time.Duration // how long a heartbeat may stand still, in the node's view; whole milliseconds
	name      string
	addresses []Address
}

// put writes everything but the sequence, which is the first word:
//
//	0    sequence: another one after each change
//	8    GUID
//	16   host
//	24   MTU:32 | number of addresses:32
//	32   flags
//	40   epoch of the life that the node is in
//	48   how long a heartbeat may stand still, in milliseconds
//	56   CRC-64/ECMA of bytes 8 to 55 and 64 to the end of the addresses
//	64   name, UTF-8, 0 behind it
//	128  addresses: GID, LID:16 | 0:48
func (d *description) put(b *[describeSize]byte) (n int) {
	clear(b[8:])
	be.PutUint64(b[8:], d.guid)
	be.PutUint64(b[16:], d.host)
	be.PutUint32(b[24:], uint32(d.mtu))
	be.PutUint32(b[28:], uint32(len(d.addresses)))
	var flags uint64
	if d.wakes {
		flags |= flagWakes
	}
	if d.names {
		flags |= flagNames
	}
	be.PutUint64(b[32:], flags)
	be.PutUint64(b[40:], d.epoch)
	be.PutUint64(b[48:], uint64(d.dead.Milliseconds()))
	copy(b[64:headSize], d.name)
	n = headSize
	for _, a := range d.addresses {
		copy(b[n:], a.GID[:])
		be.PutUint16(b[n+16:], a.LID)
		n += addressSize
	}
	be.PutUint64(b[56:], describeSum(b[:n]))
	return n
}

func describeSum(b []byte) uint64 {
	return crc64.Update(crc64.Checksum(b[8:56], table), table, b[headSize-nameSize:])
}

// errTorn says that a description, or a board, is being written.
var errTorn = errors.New("its description is being written")

// addresses returns how many addresses a description says that it has. b is its head.
func addresses(b []byte) (int, error) {
	if n := be.Uint32(b[28:]); n <= MaxAddresses {
		return int(n), nil
	}
	return 0, fmt.Errorf("it says that it has %d addresses; %d are possible", be.Uint32(b[28:]), MaxAddresses)
}

// parseDescription reads a private copy of a description, of the right length. It checks
// everything.
func parseDescription(b []byte) (description, error) {
	if be.Uint64(b[56:]) != describeSum(b) {
		return description{}, errTorn
	}
	d := description{
		guid: be.Uint64(b[8:]), host: be.Uint64(b[16:]), mtu: int(be.Uint32(b[24:])),
		wakes: be.Uint64(b[32:])&flagWakes != 0, names: be.Uint64(b[32:])&flagNames != 0,
		epoch: be.Uint64(b[40:]),
		dead:  time.Duration(min(be.Uint64(b[48:]), mostDead)) * time.Millisecond,
		name:  string(bytes.TrimRight(b[64:headSize], "\x00")),
	}
	switch {
	case d.guid == 0:
		return d, errors.New("its GUID is 0")
	case d.mtu < MinMTU:
		return d, fmt.Errorf("it accepts an MTU of %d only; %d are the least", d.mtu, MinMTU)
	case !utf8.ValidString(d.name),
		strings.ContainsFunc(d.name, func(r rune) bool { return !unicode.IsPrint(r) }):
		d.name = fmt.Sprintf("%q", d.name)
	}
	if n := (len(b) - headSize) / addressSize; n > 0 {
		d.addresses = make([]Address, 0, n)
	}
	for at := headSize; at < len(b); at += addressSize {
		d.addresses = append(d.addresses, Address{GID: [16]byte(b[at:]), LID: be.Uint16(b[at+16:])})
	}
	return d, nil
}

// describe publishes what this node says of itself. One goroutine calls it at a time.
//
// It returns the sequence, which Pool.report publishes once more in the line that says that the node lives.
//
// Publish: sequence of the description. Observed by view.described.
func (v *view) describe(part uint64, d *description) (sequence uint64) {
	var b [describeSize]byte
	at, n := part+describeAt, d.put(&b)
	v.write(at+8, b[8:n])
	sequence = v.word(at) + 1
	v.store(at, sequence)
	return sequence
}

// described returns the description of another node, and its sequence. If the node changes the description
// meanwhile, the sequence may be an older one. It returns errTorn if the check sum is wrong because the node
// is writing the description.
//
// Observe: sequence of the description, published by view.describe.
func (v *view) described(part uint64) (d description, sequence uint64, err error) {
	var b [describeSize]byte
	at := part + describeAt
	v.read(at, b[:headSize])
	n, err := addresses(b[:headSize])
	if err != nil {
		return d, be.Uint64(b[0:]), err
	}
	end := headSize + n*addressSize
	v.read(at+headSize, b[headSize:end])
	d, err = parseDescription(b[:end])
	return d, be.Uint64(b[0:]), err
}
