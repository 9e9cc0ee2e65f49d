//go:build linux && (amd64 || arm64)

package announce

import (
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Each word that the device uses has to be written, and no other. Words are numbered from the beginning.
func TestWordsThatAreUsed(t *testing.T) {
	local, far := wqe.Data{ByteCount: 8, LKey: 1, Addr: 2}, wqe.Raddr{Addr: 3, RKey: 4}
	compact := wqe.CompactAV{Key: wqe.UDKey(5), DQP: 6}
	full := wqe.AV{CompactAV: wqe.CompactAV{Key: wqe.UDKey(5), DQP: 6, Ext: true}}
	for name, c := range map[string]struct {
		t      wqe.Transport
		ctrl   wqe.Ctrl
		build  func(b *wqe.Builder)
		unused []int
	}{
		"NOP of two units": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpNop}, func(b *wqe.Builder) { b.Data(local) }, []int{3, 4, 5, 6, 7}},
		"WRITE":            {wqe.RC, wqe.Ctrl{Opcode: wqe.OpRDMAWrite}, func(b *wqe.Builder) { b.Raddr(far); b.Data(local); b.Data(local) }, []int{3, 7}},
		"WRITE_IMM":        {wqe.RC, wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm}, func(b *wqe.Builder) { b.Raddr(far); b.Data(local) }, []int{7}},
		"inline WRITE":     {wqe.RC, wqe.Ctrl{Opcode: wqe.OpRDMAWrite}, func(b *wqe.Builder) { b.Raddr(far); b.Inline([]byte("12345")) }, []int{3, 7, 11}},
		"long inline SEND": {wqe.UC, wqe.Ctrl{Opcode: wqe.OpSend}, func(b *wqe.Builder) { b.Inline(make([]byte, 70)) }, []int{3, 23}},
		"FA":               {wqe.RC, wqe.Ctrl{Opcode: wqe.OpAtomicFA}, func(b *wqe.Builder) { b.Raddr(far); b.Atomic(wqe.Atomic{}); b.Data(local) }, []int{3, 7, 10, 11}},
		"CS":               {wqe.RC, wqe.Ctrl{Opcode: wqe.OpAtomicCS}, func(b *wqe.Builder) { b.Raddr(far); b.Atomic(wqe.Atomic{}); b.Data(local) }, []int{3, 7}},
		"masked FA of 4": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpAtomicMaskedFA, OpMod: wqe.OpMod4},
			func(b *wqe.Builder) { b.Raddr(far); b.MaskedFA4(wqe.MaskedFA4{}); b.Data(local) }, []int{3, 7, 10, 11}},
		"masked CS of 8": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpAtomicMaskedCS, OpMod: wqe.OpMod8},
			func(b *wqe.Builder) { b.Raddr(far); b.MaskedCS8(wqe.MaskedCS8{}); b.Data(local) }, []int{3, 7}},
		"UD":         {wqe.UD, wqe.Ctrl{Opcode: wqe.OpSend}, func(b *wqe.Builder) { b.AV(full); b.Data(local) }, []int{3, 5, 8}},
		"DC compact": {wqe.DC, wqe.Ctrl{Opcode: wqe.OpRDMAWrite}, func(b *wqe.Builder) { b.CompactAV(compact); b.Raddr(far); b.Data(local) }, []int{3, 11}},
		"WAIT": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpWait, OpMod: wqe.OpModWaitCQ},
			func(b *wqe.Builder) { b.Wait(wqe.Wait{Index: 5, Number: 6}) }, []int{3, 4, 5}},
		"WAIT of three units": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpWait, OpMod: wqe.OpModWaitCQ},
			func(b *wqe.Builder) { b.Wait(wqe.Wait{Index: 5, Number: 6}); b.Data(local) }, []int{3, 4, 5, 8, 9, 10, 11}},
		"SEND_EN": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpSendEn},
			func(b *wqe.Builder) { b.Wait(wqe.Wait{Index: 5, Number: 6}) }, []int{3, 4, 5}},
		"MMO": {wqe.RC, wqe.Ctrl{Opcode: wqe.OpMMO, OpMod: wqe.OpModMMODMA},
			func(b *wqe.Builder) { b.MMOMeta(wqe.MMOMeta{LKey: 5}); b.Data(local); b.Data(local) }, []int{3, 4, 5, 6, 7}},
		"DUMP":    {wqe.RC, wqe.Ctrl{Opcode: wqe.OpDump}, func(b *wqe.Builder) { b.Data(local) }, []int{3}},
		"unknown": {wqe.RC, wqe.Ctrl{Opcode: 0x7e}, func(b *wqe.Builder) { b.Data(local) }, []int{4, 5, 6, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			b := make([]byte, 8*wqe.BlockSize)
			start := wqe.Start(b, 0)
			c.build(&start)
			c.ctrl.QPN = 9
			_, err := start.Finish(c.ctrl)
			require.NoError(t, err)
			const mark = 0xdeadbee5
			w := words{ring: shm.RingOf(b), mark: mark}
			ds := int(b[7] & 0x3f)
			off, why := w.written(c.t, ds)
			require.Equal(t, NotLate, why, "offset %d", off)
			var unused []int
			for i := 2; i < ds*unit; i++ {
				word := shm.BE32At(b, uint64(i)*4)
				was := word.Observe()
				word.Publish(mark)
				if off, why := w.written(c.t, ds); why == NotLate {
					unused = append(unused, i)
				} else {
					require.Equal(t, uint32(i)*4, off)
				}
				word.Publish(was)
			}
			require.Equal(t, c.unused, unused)
		})
	}
}
