package fatbin

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	written "github.com/nicless/nicless/internal/fatbin"
)

// entry is an entry as NVIDIA's compiler writes it.
func entry(kind, architecture int, flags uint64, payload []byte, compressed, size int) []byte {
	b := make([]byte, entryBytes)
	word := binary.LittleEndian
	word.PutUint16(b, uint16(kind))
	word.PutUint16(b[2:], 0x101)
	word.PutUint32(b[4:], entryBytes)
	for len(payload)%8 != 0 {
		payload = append(payload, 0)
	}
	word.PutUint64(b[8:], uint64(len(payload)))
	word.PutUint32(b[16:], uint32(compressed))
	word.PutUint32(b[28:], uint32(architecture))
	word.PutUint64(b[40:], flags)
	word.PutUint64(b[56:], uint64(size))
	return append(b, payload...)
}

func container(entries ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = append(b, 1, 0, headerBytes, 0)
	n := 0
	for _, e := range entries {
		n += len(e)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	for _, e := range entries {
		b = append(b, e...)
	}
	return b
}

// Texts come out as they went in, however they are compressed; code of GPUs is listed.
func TestRead(t *testing.T) {
	text := ".version 8.0\n" + strings.Repeat("add.s32 %r1, %r1, 1;\n", 100)
	plain := []byte(text + "\x00")
	block := make([]byte, lz4.CompressBlockBound(len(plain)))
	n, err := lz4.CompressBlock(plain, block, nil)
	require.NoError(t, err)
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := w.EncodeAll(plain, nil)
	require.NoError(t, w.Close())

	f, err := Read(container(
		entry(kindELF, 80, 0x11, []byte("\x7fELF"), 0, 0),
		entry(kindPTX, 70, 0x11, plain, 0, 0),
		entry(kindPTX, 80, 0x11|flagLZ4, block[:n], n, len(plain)),
		entry(kindPTX, 90, 0x11|flagZstd, frame, len(frame), len(plain)),
	))
	require.NoError(t, err)
	require.Equal(t, &Binary{PTX: []PTX{{70, text}, {80, text}, {90, text}}, Codes: []int{80}}, f)
}

// Containers of nicless fatbin are read as those of NVIDIA's compiler.
func TestReadWritten(t *testing.T) {
	text := ".version 7.0\n.target sm_80\n"
	e, err := written.Entry(text)
	require.NoError(t, err)
	require.Equal(t, entry(kindPTX, 80, 0x11, []byte(text+"\x00"), 0, 0)[:16], e[:16])
	f, err := Read(written.Container(e, e))
	require.NoError(t, err)
	require.Equal(t, &Binary{PTX: []PTX{{80, text}, {80, text}}}, f)
	_, err = written.Entry("kernel")
	require.ErrorContains(t, err, "no PTX")
}

func TestWrong(t *testing.T) {
	good := container(entry(kindPTX, 80, 0, []byte(".version 8.0"), 0, 0))
	at := func(off int, b ...byte) []byte {
		c := append([]byte(nil), good...)
		copy(c[off:], b)
		return c
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"short":           {good[:10], "10 bytes; its header has 16"},
		"magic":           {at(0, 1), "begins with"},
		"header":          {at(6, 8), "a header of 8 bytes"},
		"cut":             {good[:len(good)-1], "of which there are"},
		"entry":           {at(headerBytes+8, 0xff), "and a payload of 255"},
		"entry's header":  {at(headerBytes+4, 8), "a header of 8 bytes"},
		"too compressed":  {at(headerBytes+16, 0xff), "255 compressed bytes"},
		"no LZ4":          {at(headerBytes+41, 0x20), "LZ4"},
		"no zstd":         {at(headerBytes+41, 0x80), "zstd"},
		"large after all": {at(headerBytes+41, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "at most"},
	} {
		_, err := Read(c.b)
		require.ErrorContains(t, err, c.want, name)
	}
}

// Small entries do not become more memory than one large text has, and not more than they say.
func TestTextsTogether(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := w.EncodeAll(make([]byte, 1<<20), nil)
	require.NoError(t, w.Close())
	large := entry(kindPTX, 80, flagZstd, frame, len(frame), maxText-1)
	_, err = Read(container(large))
	require.NoError(t, err)
	_, err = Read(container(large, entry(kindPTX, 80, flagZstd, frame, len(frame), 1<<20)))
	require.ErrorContains(t, err, "at most 1 are possible here")
	_, err = Read(container(entry(kindPTX, 80, flagZstd, frame, len(frame), 1000)))
	require.ErrorContains(t, err, "zstd")
}

// No bytes of strangers make the reader panic.
func FuzzRead(f *testing.F) {
	f.Add(container(entry(kindPTX, 80, 0, []byte(".version 8.0"), 0, 0), entry(kindELF, 90, 0, nil, 0, 0)))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = Read(b) })
}
