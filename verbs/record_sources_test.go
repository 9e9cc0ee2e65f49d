//go:build linux && (amd64 || arm64)

package verbs

import (
	"io/fs"
	"regexp"
	"strconv"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/stretchr/testify/require"
)

// The library of nicless record knows the firmware commands that make queues by the numbers of package
// field/devx, and it finds the number of a new queue where their answers have it.
func TestRecordKnowsMakers(t *testing.T) {
	source, err := fs.ReadFile(RecordSources(), "devx.c")
	require.NoError(t, err)
	known := map[uint16]bool{}
	for _, m := range regexp.MustCompile(`\{0x([0-9a-f]+), "(\w+)"\}`).FindAllStringSubmatch(string(source), -1) {
		op, err := strconv.ParseUint(m[1], 16, 16)
		require.NoError(t, err)
		require.Equal(t, devx.Name(uint16(op)), m[2]+" (0x"+m[1]+")")
		known[uint16(op)] = true
	}
	header, err := fs.ReadFile(RecordSources(), "raw.h")
	require.NoError(t, err)
	m := regexp.MustCompile(`uint8_t command\[(\d+)\]`).FindSubmatch(header)
	require.NotNil(t, m)
	kept, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	for _, f := range []*devx.Field{devx.NewQPN, devx.NewCQN, devx.NewRMPN, devx.NewDCTN} {
		require.Equal(t, []int{8, 23, 0}, []int{f.At, f.High, f.Low}, f.Name)
	}
	for _, c := range devx.Commands() {
		makes := c.Op == devx.OpCreateCQ || c.Op == devx.OpCreateQP || c.Op == devx.OpCreateRMP || c.Op == devx.OpCreateDCT
		require.Equal(t, makes, known[c.Op], c.Name)
		if makes {
			require.LessOrEqual(t, c.InSize, kept, c.Name)
		}
	}
	require.Len(t, known, 9)
}
