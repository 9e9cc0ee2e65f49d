package machine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
)

// small is memory for the variables of strangers, which are not large.
type small struct{ *memory }

func (s small) Allocate(size, align int64) (uint64, []byte, error) {
	if size > 1<<16 || align > 4096 {
		return 0, nil, errors.New("too large")
	}
	return s.memory.Allocate(size, align)
}

// No text makes the parser, the verifier or the machine panic, and no kernel reaches memory outside its
// space.
func FuzzPTX(f *testing.F) {
	files, err := filepath.Glob("../../../testdata/*.ptx")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add(loops)
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := syntax.Parse(text)
		if err != nil {
			return
		}
		m, err := code.Build(tree)
		if err != nil {
			return
		}
		mem := &memory{}
		defer mem.Close()
		// Kernels reach the middle third, whose address all their parameters are.
		_, room, err := mem.Arena.Allocate(3*4096, 4096)
		require.NoError(t, err)
		pattern := bytes.Repeat([]byte{0xa5}, 4096)
		copy(room, pattern)
		copy(room[2*4096:], pattern)
		address := AddressOf(room[4096:])
		require.NoError(t, mem.space.Add(address, 4096))
		p, err := Link([]*code.Module{m}, small{mem})
		if err != nil {
			return
		}
		for _, k := range p.Kernels() {
			if k.Err != nil || k.ParamBytes > 4096 {
				continue
			}
			runs(t, mem, k, address)
		}
		require.Equal(t, pattern, room[:4096])
		require.Equal(t, pattern, room[2*4096:])
	})
}

// runs executes a kernel for some turns.
func runs(t *testing.T, mem *memory, k *Kernel, address uint64) {
	params := make([]byte, k.ParamBytes)
	for _, p := range k.Params {
		if p.Size == 8 {
			var word bytes.Buffer
			for n := address; n != 0; n >>= 8 {
				word.WriteByte(byte(n))
			}
			copy(params[p.Offset:], word.Bytes())
		}
	}
	arena := &Arena{}
	defer arena.Close()
	g, err := NewGrid(Launch{
		Kernel: k, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{uint32(min(33, k.MaxThreads())), 1, 1},
		Params: params, Stack: 512, Space: &mem.space, Arena: arena,
	})
	if err != nil {
		return
	}
	b, err := g.newBlock()
	if err != nil {
		return
	}
	b.begin(0)
	for turn := 0; turn < 3 && b.live > 0 && err == nil; turn++ {
		_, err = b.try()
	}
}
