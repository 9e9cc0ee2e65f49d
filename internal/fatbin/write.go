// Package fatbin writes fat binaries: what NVIDIA's compiler puts into a program for its kernels. Clang
// without NVIDIA's tools cannot write them itself.
//
// All numbers are little-endian. A container is a header and entries:
//
//	0  u32  0xba55ed50
//	4  u16  1: the version
//	6  u16  bytes of this header: 16
//	8  u64  bytes of all entries, which follow
//
// An entry is a header and a payload:
//
//	 0  u16  the kind: 1 PTX, 2 code of a GPU (ELF)
//	 2  u16  0x101
//	 4  u32  bytes of this header: 64
//	 8  u64  bytes of the payload, a multiple of 8
//	24  u16  minor version of PTX
//	26  u16  major version of PTX
//	28  u32  the architecture: 80 for sm_80
//	40  u64  flags: 0x11, 64 bits and Linux
//
// Source: fat binaries of nvcc 11.8.
package fatbin

import (
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"strconv"
)

// Layout of a container and its entries. Package fatbin of module cuda reads them.
const (
	Magic       = 0xba55ed50
	HeaderBytes = 16
	EntryBytes  = 64
	KindPTX     = 1
	KindELF     = 2
)

var (
	version = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+)\.(\d+)`)
	target  = regexp.MustCompile(`(?m)^\s*\.target\s+sm_(\d+)`)
)

// Entry returns the entry of a PTX text, which has to say its version and its target.
func Entry(text string) ([]byte, error) {
	v, t := version.FindStringSubmatch(text), target.FindStringSubmatch(text)
	if v == nil || t == nil {
		return nil, errors.New("this is no PTX: it has no .version or no .target sm_")
	}
	payload := append([]byte(text), make([]byte, 8-len(text)%8)...) // one zero at least ends the text
	le := binary.LittleEndian
	head := make([]byte, EntryBytes)
	le.PutUint16(head, KindPTX)
	le.PutUint16(head[2:], 0x101)
	le.PutUint32(head[4:], EntryBytes)
	le.PutUint64(head[8:], uint64(len(payload)))
	le.PutUint16(head[24:], number(v[2]))
	le.PutUint16(head[26:], number(v[1]))
	le.PutUint32(head[28:], uint32(number(t[1])))
	le.PutUint64(head[40:], 0x11)
	return append(head, payload...), nil
}

// Container returns a container of entries.
func Container(entries ...[]byte) []byte {
	all := slices.Concat(entries...)
	le := binary.LittleEndian
	head := make([]byte, HeaderBytes)
	le.PutUint32(head, Magic)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], HeaderBytes)
	le.PutUint64(head[8:], uint64(len(all)))
	return append(head, all...)
}

// number reads digits. One that is too great becomes the greatest, which no reader knows.
func number(digits string) uint16 {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 1<<16 - 1
	}
	return uint16(n)
}
