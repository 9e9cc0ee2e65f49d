package gpu

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
)

// waits is a kernel that waits until the word behind the first one is not 0.
const waits = `.version 7.0
.target sm_70
.address_size 64
.visible .entry waits(.param .u64 p) {
	.reg .b64 %a; .reg .b32 %v; .reg .pred %q;
	ld.param.u64 %a, [p];
	st.volatile.global.u32 [%a], 1;
again:	ld.volatile.global.u32 %v, [%a+4];
	setp.eq.u32 %q, %v, 0;
	@%q bra again;
	ret;
}
`

// A module is unloaded after its kernels, and a binary ends them; neither is a mistake of the program.
func TestKernelsOfUnregistered(t *testing.T) {
	s := New(Config{Devices: 1})
	d := s.devices[0]
	at, c := d.Allocate(8, Managed)
	require.Equal(t, Success, c)
	words := (*[2]atomic.Uint32)(pointerTo(at))
	begin := func() (module uint64) {
		module, c := d.LoadModule(waits)
		require.Equal(t, Success, c)
		kernel, c := d.Function(module, "waits")
		require.Equal(t, Success, c)
		words[0].Store(0)
		words[1].Store(0)
		packed := binary.LittleEndian.AppendUint64(nil, at)
		stream, _ := d.Stream(0)
		one := [3]uint32{1, 1, 1}
		for range 2 {
			require.Equal(t, Success, stream.Launch(Launch{Stub: kernel, Grid: one, Block: one, Packed: packed}))
		}
		await.Until(t, "the first kernel runs", func() bool { return words[0].Load() == 1 })
		return module
	}
	s.UnregisterBinary(begin())
	require.Equal(t, Success, d.Synchronize())

	module := begin()
	words[0].Store(2)
	words[1].Store(1)
	s.UnloadModule(module)
	require.EqualValues(t, 1, words[0].Load(), "the second kernel was executed")
	require.Equal(t, Success, d.Free(at))
}
