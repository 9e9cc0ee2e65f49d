package devx

import (
	"slices"
	"testing"

	"github.com/nicless/nicless/field"
	"github.com/stretchr/testify/require"
)

// A syndrome leads back to the field for which a command was refused.
func TestSyndromesNameFields(t *testing.T) {
	for _, c := range []struct {
		syndrome uint32
		want     string
	}{
		{0x05000380, "CREATE_QP, pd (0x1c bits 23..0)"},
		{0x04000398, "CREATE_CQ, log_cq_size (0x1c bits 28..24)"},
		{0x05000000, "CREATE_QP"},
		{0x05000381, ""},
		{0x4bb88f, ""}, // of a NIC
		{0x09000380, ""},
		{0, ""},
	} {
		got, ok := Refused(c.syndrome)
		require.Equal(t, c.want, got, "%#x", c.syndrome)
		require.Equal(t, c.want != "", ok)
	}
	require.Equal(t, uint32(0x05000380), SyndromeOf(OpCreateQP, QPPD))
	require.Equal(t, uint32(0x05000000), SyndromeOf(OpCreateQP, nil))

	answer := make([]byte, HeadSize)
	answer[0] = byte(StatusBadResource)
	Syndrome.Put(answer, 0x05000380)
	tree, err := Describe(answer, OpCreateQP)
	require.NoError(t, err)
	i := slices.IndexFunc(tree, func(f field.Field) bool { return f.Name == "syndrome" })
	require.Contains(t, tree[i].Text, "for its maker, which for nicless is CREATE_QP, pd (0x1c bits 23..0)")
}
