//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A list of equal parts (KSM) is one whose entries have the size of a part, as far as the key reaches. UCX
// makes its key for the flush at the other end so: one entry, and a part that is longer than the memory.
func TestListOfEqualParts(t *testing.T) {
	entry := func(b []byte, first, key uint32, addr uint64) []byte {
		b = binary.BigEndian.AppendUint32(b, first)
		b = binary.BigEndian.AppendUint32(b, key)
		return binary.BigEndian.AppendUint64(b, addr)
	}
	for name, c := range map[string]struct {
		log, length uint64
		entries     uint32
		want        []uint64
	}{
		"whole parts":             {12, 2 << 12, 2, []uint64{1 << 12, 1 << 12}},
		"the last is cut":         {12, 1<<12 + 8, 2, []uint64{1 << 12, 8}},
		"one, too long":           {20, 8, 1, []uint64{8}},
		"one that is not reached": {12, 1 << 12, 2, []uint64{1 << 12, 1}},
	} {
		cmd := mailbox(devx.OpCreateMkey, devx.KeyMode, devx.ModeKSM, devx.KeyActual, c.entries, devx.KeyQPN, 0xffffff,
			devx.KeyStart, 0x10000, devx.KeyLength, c.length, devx.KeyLogEntity, c.log, devx.KeyReads, 1)
		cmd = append(cmd, make([]byte, listAt-len(cmd))...)
		var want []nic.ListEntry
		for i, n := range c.want {
			e := nic.ListEntry{Key: uint32(0x100 + i), Addr: uint64(0x7000 + i), N: n}
			cmd = entry(cmd, 0xffffffff, e.Key, e.Addr) // the first word is not used
			want = append(want, e)
		}
		list, err := keyInCommand(cmd)
		require.NoError(t, err, name)
		require.Equal(t, want, list.Entries, name)
		require.Equal(t, []uint64{0x10000, c.length}, []uint64{list.Start, list.Length}, name)
	}
}
