// Package fatbin reads fat binaries: what NVIDIA's compiler puts into a program for its kernels. A fat
// binary has the same kernels several times: as PTX, and as code for single GPUs, which only these GPUs
// execute.
//
// All numbers are little-endian. A container is a header and entries:
//
//	0  u32  0xba55ed50
//	4  u16  1: the version
//	6  u16  bytes of this header: 16 or more
//	8  u64  bytes of all entries, which follow
//
// An entry is a header and a payload:
//
//	 0  u16  the kind: 1 PTX, 2 code of a GPU (ELF)
//	 4  u32  bytes of this header: 64 or more
//	 8  u64  bytes of the payload, which follows, up to the next entry
//	16  u32  bytes of the payload if it is compressed, or 0
//	28  u32  the architecture: 80 for sm_80
//	40  u64  flags: 0x2000 compressed as a block of LZ4; 0x8000 by zstd
//	56  u64  bytes after decompression, or 0
//
// Source: fat binaries of nvcc 11.8 and 13.0, and of Debian's clang.
package fatbin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	magic        = 0xba55ed50
	headerBytes  = 16
	entryBytes   = 64
	kindPTX      = 1
	kindELF      = 2
	flagLZ4      = 0x2000
	flagZstd     = 0x8000
	maxText      = 256 << 20 // of all PTX; NVSHMEM's device library, the largest one known, has 9 MB
	maxContainer = 4 << 30
)

// A Binary is a container.
type Binary struct {
	PTX   []PTX
	Codes []int // the architectures for which there is code of a GPU

	room uint64 // bytes that texts may still have: few bytes of an entry may become many
}

// A PTX is a text, and the architecture that it was made for: 80 for compute_80.
type PTX struct {
	Architecture int
	Text         string
}

// Size returns how many bytes a container has, from its first 16 bytes.
func Size(header []byte) (uint64, error) {
	if len(header) < headerBytes {
		return 0, fmt.Errorf("a fat binary of %d bytes; its header has %d", len(header), headerBytes)
	}
	if got := binary.LittleEndian.Uint32(header); got != magic {
		return 0, fmt.Errorf("a fat binary begins with %#x, not %#x", got, uint32(magic))
	}
	first, rest := uint64(binary.LittleEndian.Uint16(header[6:])), binary.LittleEndian.Uint64(header[8:])
	if first < headerBytes || rest > maxContainer {
		return 0, fmt.Errorf("a fat binary with a header of %d bytes and %d bytes of entries", first, rest)
	}
	return first + rest, nil
}

// Read reads a container.
func Read(b []byte) (*Binary, error) {
	size, err := Size(b)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(b)) {
		return nil, fmt.Errorf("a fat binary of %d bytes, of which there are %d", size, len(b))
	}
	found := &Binary{room: maxText}
	at := uint64(binary.LittleEndian.Uint16(b[6:]))
	for at < size {
		n, err := found.entry(b[at:size])
		if err != nil {
			return nil, fmt.Errorf("the entry at byte %d of a fat binary: %w", at, err)
		}
		at += n
	}
	found.room = 0
	return found, nil
}

// entry reads the first entry of b, and returns how many bytes it has.
func (f *Binary) entry(b []byte) (uint64, error) {
	if len(b) < entryBytes {
		return 0, fmt.Errorf("%d bytes are left; its header has %d", len(b), entryBytes)
	}
	word := binary.LittleEndian
	header, payload := uint64(word.Uint32(b[4:])), word.Uint64(b[8:])
	left := uint64(len(b))
	if header < entryBytes || header > left || payload > left-header {
		return 0, fmt.Errorf("a header of %d bytes and a payload of %d; %d bytes are left", header, payload, left)
	}
	architecture := int(word.Uint32(b[28:]))
	data := b[header : header+payload]
	if compressed := uint64(word.Uint32(b[16:])); compressed > 0 {
		if compressed > payload {
			return 0, fmt.Errorf("%d compressed bytes in a payload of %d", compressed, payload)
		}
		data = data[:compressed]
	}
	switch kind := word.Uint16(b); kind {
	case kindPTX:
		text, err := f.decompress(data, word.Uint64(b[40:]), word.Uint64(b[56:]))
		if err != nil {
			return 0, fmt.Errorf("PTX for compute_%d: %w", architecture, err)
		}
		if end := bytes.IndexByte(text, 0); end >= 0 {
			text = text[:end]
		}
		f.PTX = append(f.PTX, PTX{architecture, string(text)})
	case kindELF:
		if !slices.Contains(f.Codes, architecture) {
			f.Codes = append(f.Codes, architecture)
		}
	} // other kinds are for debuggers and linkers
	return header + payload, nil
}

// decompress returns a payload of size bytes as it was.
func (f *Binary) decompress(b []byte, flags, size uint64) ([]byte, error) {
	if flags&(flagLZ4|flagZstd) == 0 {
		return b, nil
	}
	if size > f.room {
		return nil, fmt.Errorf("%d bytes; at most %d are possible here, and %d in all", size, f.room, maxText)
	}
	f.room -= size
	if flags&flagLZ4 != 0 {
		text := make([]byte, size)
		n, err := lz4.UncompressBlock(b, text)
		if err != nil {
			return nil, fmt.Errorf("LZ4: %w", err)
		}
		return text[:n], nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(size, 1)))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	text, err := d.DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return text, nil
}
