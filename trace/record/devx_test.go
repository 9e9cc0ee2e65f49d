//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/stretchr/testify/require"
)

const kindDEVX = 14

// made returns the data of a record of a queue that a firmware command has made.
func made(number uint32, op uint16, set map[*devx.Field]uint64) []byte {
	cmd := make([]byte, 272)
	devx.Opcode.Put(cmd, uint64(op))
	for f, v := range set {
		f.Put(cmd, v)
	}
	return append(words(number, 0), cmd...)
}

// Queues that firmware commands have made are named, with what the commands say: in a record that has nothing
// else too.
func TestFirmwareQueues(t *testing.T) {
	f := device()
	for i, data := range [][]byte{
		made(0x82, devx.OpCreateCQ, map[*devx.Field]uint64{devx.CQLogSize: 10}),
		made(0x104, devx.OpCreateQP, map[*devx.Field]uint64{devx.QPLogSQ: 7, devx.QPSendCQ: 0x82, devx.QPReceiveCQ: 0x83}),
		made(0x105, devx.OpCreateQP, map[*devx.Field]uint64{devx.QPNoSQ: 1, devx.QPSendCQ: 0x82}),
		made(5, devx.OpCreateRMP, map[*devx.Field]uint64{devx.WQLogSize: 12}),
		made(6, devx.OpCreateDCT, map[*devx.Field]uint64{devx.DCTCQ: 0x82}),
		made(7, 0x904, nil),
		made(8, 0xffff, nil),
		words(0xff000009, 0), // without a command
	} {
		f.add(kindDEVX, uint64(i), 1, 0, data)
	}
	copy((*f)[32:], "ucx\x1b[2J\"")
	(*f)[8] = 77
	b, s, err := write(*f)
	require.NoError(t, err)
	checkWhole(t, b)
	require.Equal(t, []string{
		"CQ 0x82 of 1024 entries", "QP 0x104 of 128 blocks, CQs 0x82 and 0x83", "QP 0x105 without a send queue, CQs 0x82 and 0x0",
		"RMP 0x5 of 4096 receives", "DCT 0x6, CQ 0x82", "0x7, which CREATE_SQ (0x904) has made", "0x8, which firmware command 0xffff has made",
		"0x9, which firmware command 0x0 has made",
	}, withoutProcess(t, s.Named))
	require.Contains(t, s.Notes()[0], "8 queues are NOT recorded: firmware commands (DEVX) have made them.")
	require.Equal(t, "not recorded: "+s.Named[0], s.Notes()[1])

	for range 40 {
		f.add(kindDEVX, 9, 1, 0, made(9, devx.OpCreateCQ, nil))
	}
	_, s, err = write(*f)
	require.NoError(t, err)
	require.Len(t, s.Notes(), 1+16+1+1) // the process has not ended in order
	require.Contains(t, s.Notes(), "not recorded: 32 more of them")
	f.add(kindDEVX, 9, 1, 0, bytes.Repeat([]byte{1}, 7))
	_, _, err = write(*f)
	require.ErrorContains(t, err, "kind 14: 7 bytes; it has 8")
}

func withoutProcess(t *testing.T, list []string) (out []string) {
	for _, s := range list {
		b, ok := bytes.CutSuffix([]byte(s), []byte(`, of process 77 (ucx\x1b[2J\")`))
		require.True(t, ok, s)
		out = append(out, string(b))
	}
	return out
}
