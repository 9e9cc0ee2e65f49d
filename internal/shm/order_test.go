//go:build amd64 && !race

package shm

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The compiler must keep all stores around a Publish, in their order. Without storeRel32 and
// storeRel64 it would remove the first Publish of a word as a dead store.
//
//go:noinline
func stores(plain *[4]uint64, w *Word64, b *BE32) {
	plain[0] = 0x101
	w.Publish(0x102)
	plain[1] = 0x103
	b.Publish(0x104)
	w.Publish(0x105)
	plain[0] = 0x106
	w.Publish(0x107)
}

func TestPublishStaysInItsPlace(t *testing.T) {
	stores(new([4]uint64), new(Word64), new(BE32))
	exe := filepath.Join(t.TempDir(), "shm.test")
	// the running binary has no symbols
	text, err := exec.Command("go", "test", "-c", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)
	text, err = exec.Command("go", "tool", "objdump", "-s", `shm\.stores$`, exe).CombinedOutput()
	require.NoError(t, err, "%s", text)
	var order []string
	for _, m := range regexp.MustCompile(`MOV[LQ] (\S+), (?:0x8|0)\(`).FindAllSubmatch(text, -1) {
		order = append(order, string(m[1]))
	}
	// 0x104 comes from a register, in big-endian order.
	require.Equal(t, []string{"$0x101", "$0x102", "$0x103", "DX", "$0x105", "$0x106", "$0x107"}, order, "%s", text)
}
