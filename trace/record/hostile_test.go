//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/trace/record"
	"github.com/stretchr/testify/require"
)

// A rawFile is a raw file in the making.
type rawFile []byte

func (f *rawFile) add(kind byte, time, id, value uint64, data []byte) {
	n := (32 + len(data) + 7) &^ 7
	r := make([]byte, n)
	binary.LittleEndian.PutUint32(r, uint32(n))
	r[4], r[5] = kind, byte(n-32-len(data))
	for i, v := range []uint64{time, id, value} {
		binary.LittleEndian.PutUint64(r[8+8*i:], v)
	}
	copy(r[32:], data)
	*f = append(*f, r...)
}

func words(list ...uint32) (b []byte) {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// device returns a raw file with a device of id 1.
func device() *rawFile {
	f := rawFile(make([]byte, 64))
	copy(f, "niclraw1")
	f.add(1, 1, 1, 0, make([]byte, 16))
	return &f
}

// Objects that name themselves, each other, objects of another kind or of none, and numbers that repeat.
func TestHostileObjects(t *testing.T) {
	f := device()
	f.add(kindQP, 2, 2, 1, words(2, 0, 2, 0, 2, 0, 7, 1, 2, math.MaxUint32, math.MaxUint32, math.MaxUint32))
	f.add(kindQP, 3, 3, 1, words(1, 0, 2, 0, 1, 0, 7, 1, 2, 0, 0, 0))
	f.add(kindModify, 4, 2, 0, append(words(7, 0, 0, 0, 0, 0), 0, 0, 0, 0, 0, 0, 255, 255))
	f.add(kindModify, 5, 3, 0, append(words(7, 0, 0, 0, 0, 0), 0, 0, 0, 0, 0, 0, 255, 2))
	for range 3 {
		f.add(kindGone, 6, 2, 0, nil)
		f.add(kindModify, 0, 2, 0, make([]byte, 32))
		f.add(kindPost, 7, 2, 0, make([]byte, 64))
	}
	f.add(kindGone, 8, 1, 0, nil)
	f.add(kindGone, 8, 1, 0, nil)
	out, _, err := write(*f)
	require.NoError(t, err)
	checkWhole(t, out)

	for want, add := range map[string]func(f *rawFile){
		"object 1 is there already":                func(f *rawFile) { f.add(1, 1, 1, 0, make([]byte, 16)) },
		"object 2: there is no device 2":           func(f *rawFile) { f.add(kindCQ, 1, 2, 2, words(1, 1, 64)) },
		"3 entries of 64 bytes; powers of two are": func(f *rawFile) { f.add(kindCQ, 1, 2, 1, words(1, 3, 64)) },
		"0 entries of 0 bytes; powers of two are":  func(f *rawFile) { f.add(kindSRQ, 1, 2, 1, words(1, 1, 0, 0)) },
		"kind 4: 44 bytes; it has 48":              func(f *rawFile) { f.add(kindQP, 1, 2, 1, make([]byte, 44)) },
		"kind 8: object 1 is of kind 1":            func(f *rawFile) { f.add(kindPost, 1, 1, 0, make([]byte, 64)) },
		"kind 8: there is no object 5":             func(f *rawFile) { f.add(kindPost, 1, 5, 0, make([]byte, 64)) },
	} {
		f := device()
		add(f)
		_, _, err := write(*f)
		require.ErrorContains(t, err, want)
	}
}

// The writer calls itself for queue pairs of which each waits for the next one. Their number is limited, so
// its stack is too.
func TestLongestChain(t *testing.T) {
	const n = 1 << 14 // of 1 << 18, which take 10 s
	f := device()
	id := func(i int) uint64 { return uint64(2 + i) }
	qp := func(i int) uint64 { return uint64(2 + n + 1 + i) }
	for i := range n + 1 {
		f.add(kindCQ, 2, id(i), 1, words(uint32(i), 2, 64))
	}
	wqe := make([]byte, 64)
	wqe[3], wqe[7], wqe[11] = 0x0a, 1, 8 // a SEND with a completion
	for i := range n {
		b := binary.LittleEndian.AppendUint64(nil, id(i))
		b = binary.LittleEndian.AppendUint64(b, id(i+1))
		number := uint32(i + 1) // it is its own peer
		b = append(binary.LittleEndian.AppendUint64(b, 0), words(number, 1, 2, 64, 4, 16)...)
		f.add(kindQP, 3, qp(i), 1, b)
		f.add(kindModify, 3, qp(i), 0, append(words(number, 0, 0, 0, 0, 0), 0, 0, 0, 0, 0, 0, 1, 2))
		f.add(kindPost, 4, qp(i), 0, wqe)
	}
	// In each queue the completion of a receive is first, and then that of the WQE of the next queue pair.
	cqe := func(time uint64, cq, q int, opcode byte) {
		b := binary.LittleEndian.AppendUint64(nil, qp(q))
		e := make([]byte, 64)
		e[63] = opcode << 4
		f.add(kindCQE, time, id(cq), 0, append(b, e...))
	}
	for i := range n {
		cqe(uint64(5+n-i), i+1, i, 2)
		cqe(uint64(5+n-i), i, i, 0)
	}
	out, s, err := write(*f)
	require.NoError(t, err)
	require.Equal(t, n, s.WQEs)
	require.Zero(t, s.Crossed)
	checkWhole(t, out)
}

// Bytes are changed anywhere: there is an error, or a trace that is whole and not larger than usual.
func TestChangedBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		name := programs[random.IntN(len(programs))]
		files := rawFiles(t, name)
		heads := [2][]int{at(files[0], 0), at(files[1], 0)}
		for range 1 + random.IntN(4) {
			which := random.IntN(2)
			f, list := files[which], heads[which]
			i := random.IntN(len(f))
			if random.IntN(2) == 0 {
				i = list[random.IntN(len(list))] + random.IntN(32) // in the header of a record
			}
			f[i] = byte(random.Uint32())
		}
		var out bytes.Buffer
		_, err := record.Write(&out, []record.File{
			{Name: "a", In: bytes.NewReader(files[0]), Size: int64(len(files[0]))},
			{Name: "b", In: bytes.NewReader(files[1]), Size: int64(len(files[1]))}})
		if err == nil {
			checkWhole(t, out.Bytes())
			require.Less(t, out.Len(), 1<<20, fmt.Sprint(name))
		}
	}
}
