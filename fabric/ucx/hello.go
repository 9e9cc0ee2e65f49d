//go:build linux && (amd64 || arm64)

package ucx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/board"
)

var be = binary.BigEndian

const (
	// MaxAddresses is how many addresses of an engine its peers get.
	MaxAddresses = 128

	nameSize      = 64
	helloHeadSize = 32 + nameSize
	addressSize   = 24
	maxHello      = helloHeadSize + MaxAddresses*addressSize + board.Max
)

// A hello is what an engine sends its peers about itself.
type hello struct {
	guid      uint64
	life      uint64 // random number of this life of the engine
	mtu       int    // most bytes of payload that it takes
	name      string
	addresses []Address
	sequence  uint32        // counts the hellos of this life of the engine
	announced []board.Entry // by clients of the engine
}

// append appends the hello to b:
//
//	0   GUID
//	8   life
//	16  MTU:32 | number of addresses:32
//	24  sequence:32 | bytes of the announcements:32
//	32  name, UTF-8, 0 behind it
//	96  addresses: GID, LID:16 | 0:48
//	    announcements, as package internal/board writes them: those that fit into board.Max bytes
func (h *hello) append(b []byte) []byte {
	b = be.AppendUint64(b, h.guid)
	b = be.AppendUint64(b, h.life)
	b = be.AppendUint32(b, uint32(h.mtu))
	b = be.AppendUint32(b, uint32(len(h.addresses)))
	list, _ := board.Append(nil, h.announced, board.Max)
	b = be.AppendUint32(b, h.sequence)
	b = be.AppendUint32(b, uint32(len(list)))
	var name [nameSize]byte
	copy(name[:], h.name)
	b = append(b, name[:]...)
	for _, a := range h.addresses {
		b = append(b, a.GID[:]...)
		b = be.AppendUint64(b, uint64(a.LID)<<48)
	}
	return append(b, list...)
}

// parseHello reads a hello. It checks everything.
func parseHello(b []byte) (h hello, err error) {
	if len(b) < helloHeadSize {
		return h, fmt.Errorf("a hello of %d bytes; %d are the least", len(b), helloHeadSize)
	}
	n, list := be.Uint32(b[20:]), be.Uint32(b[28:])
	end := helloHeadSize + int(min(n, MaxAddresses+1))*addressSize
	if n > MaxAddresses || list > board.Max || len(b) != end+int(list) {
		return h, fmt.Errorf("a hello of %d bytes with %d addresses and %d bytes of announcements", len(b), n, list)
	}
	h = hello{
		guid: be.Uint64(b), life: be.Uint64(b[8:]), mtu: int(be.Uint32(b[16:])),
		name: strings.TrimRight(string(b[32:helloHeadSize]), "\x00"), sequence: be.Uint32(b[24:]),
	}
	switch {
	case h.guid == 0:
		return h, errors.New("its GUID is 0")
	case h.life == 0:
		return h, errors.New("the number of its life is 0")
	case h.mtu < minMTU || h.mtu > maxMTU:
		return h, fmt.Errorf("its MTU is %d; %d to %d are possible", h.mtu, minMTU, maxMTU)
	}
	if !utf8.ValidString(h.name) || strings.ContainsFunc(h.name, func(r rune) bool { return r < ' ' }) {
		h.name = fmt.Sprintf("%q", h.name)
	}
	for at := helloHeadSize; at < end; at += addressSize {
		h.addresses = append(h.addresses, Address{GID: [16]byte(b[at:]), LID: be.Uint16(b[at+16:])})
	}
	h.announced, err = board.Parse(b[end : end+int(list)])
	if errors.Is(err, board.ErrVersion) {
		err = nil // an engine of another version: the link works, without what its clients announce
	}
	return h, err
}
