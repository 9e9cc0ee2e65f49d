package devx_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/vectors"
)

// mailbox returns a command of n bytes that has these words, by their offsets.
func mailbox(n int, words map[int]uint32) []byte {
	b := make([]byte, n)
	for at, w := range words {
		binary.BigEndian.PutUint32(b[at:], w)
	}
	return b
}

// printed returns the lines of a tree.
func printed(t *testing.T, tree field.Tree, b []byte) []string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, tree.Print(&out, b))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestDescribeShowsEachByteOnce(t *testing.T) {
	for _, c := range devx.Commands() {
		for _, answer := range []uint16{0, c.Op} {
			n := max(c.InSize, c.OutSize) + 5
			b := bytes.Repeat([]byte{0xa5}, n)
			binary.BigEndian.PutUint16(b, c.Op)
			tree, err := devx.Describe(b, answer)
			require.NoError(t, err)
			checkShown(t, tree, n)
		}
	}
}

// checkShown checks that the tree has each of n bytes once, in order.
func checkShown(t *testing.T, tree field.Tree, n int) {
	t.Helper()
	next := 0
	var walk func(field.Tree)
	walk = func(tree field.Tree) {
		for _, f := range tree {
			walk(f.Sub)
			for _, e := range f.List {
				walk(e.Sub)
			}
			if f.Len == 0 || f.Sub != nil {
				continue
			}
			require.Equal(t, next, f.Offset, "offset of %q", f.Name)
			next += f.Len
		}
	}
	walk(tree)
	require.Equal(t, n, next, "bytes shown")
}

func TestDescribePrinted(t *testing.T) {
	b := mailbox(devx.HeadSize, map[int]uint32{0: 0x050b0007, 4: 0x00010000, 8: 0xff000100})
	tree, err := devx.Describe(b, 0)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"00  05 0b                    opcode  1291  QUERY_QP",
		"02  00 07                    uid     7  the kernel's number of the context; programs leave it 0",
		"04  00 01                    -  reserved, but not 0",
		"06  00 00                    op_mod  0",
		"08  ff                       -  reserved, but not 0",
		"09  00 01 00                 qpn     256  0x100: number of the queue pair",
		"0c  00 00 00 00              -  reserved",
	}, printed(t, tree, b))
}

// Reserved bits beside fields are shown too.
func TestDescribeReservedBits(t *testing.T) {
	b := mailbox(272, map[int]uint32{0: 0x05000000, 0x1c: 0x08000005, 0xc4: 0x43000000})
	tree, err := devx.Describe(b, 0)
	require.NoError(t, err)
	lines := printed(t, tree, b)
	for _, want := range []string{
		"01d  00 00 05                   pd                                   5  number of the protection domain",
		"0c4  43                         rq_type                              3  bits 26..24: there are none",
		"  reserved bits 0x08 of byte 0x1c, but not 0",
		"  reserved bits 0x40 of byte 0xc4, but not 0",
	} {
		assert.True(t, slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, want) }), "%s in\n%s",
			want, strings.Join(lines, "\n"))
	}
}

func TestDescribeAnswer(t *testing.T) {
	b := mailbox(devx.HeadSize, map[int]uint32{0: 0x03000000, 4: 0x5000aa, 8: 0x107})
	tree, err := devx.Describe(b, devx.OpCreateQP)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"status": 3.0, "syndrome": float64(0x5000aa), "qpn": 263.0}, set(t, tree))
	assert.Contains(t, printed(t, tree, b)[0], "a field has a value that is not possible")
}

func TestDescribeKeyEntries(t *testing.T) {
	b := mailbox(272+16+3, map[int]uint32{0: 0x02000000, 0x10: 0x200, 0x60: 1, 0x110: 4096, 0x114: 0x77, 0x118: 1, 0x11c: 2})
	tree, err := devx.Describe(b, 0)
	require.NoError(t, err)
	checkShown(t, tree, len(b))
	entries := tree[len(tree)-2]
	require.Equal(t, "entries", entries.Name)
	require.Len(t, entries.List, 1)
	assert.Equal(t, map[string]any{"byte_count": 4096.0, "mkey": "0x00000077", "address": "0x0000000100000002"},
		set(t, entries.List[0].Sub))
	assert.Empty(t, devx.Find(devx.OpCreateMkey).Unknown(b), "entries are known")
}

func TestDescribeErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		b        []byte
		answerOf uint16
		want     string
		tree     bool
	}{
		{"shorter than a head", make([]byte, 15), 0, "devx: 15 bytes; a mailbox has at least 16", false},
		{"unknown", mailbox(24, map[int]uint32{0: 0xffff0000}), 0, "devx: the fields of firmware command 0xffff are not known", true},
		{"known by name only", mailbox(24, map[int]uint32{0: 0x07170000}), 0,
			"devx: the fields of CREATE_XRQ (0x717) are not known", true},
		{"answer of an unknown command", make([]byte, 16), 0xffff, "devx: the fields of firmware command 0xffff are not known", true},
		{"too short", mailbox(64, map[int]uint32{0: 0x05000000}), 0,
			"devx: CREATE_QP (0x500) of 64 bytes; at least 272 are needed", true},
		{"answer too short", make([]byte, 16), devx.OpQueryQP,
			"devx: answer of QUERY_QP (0x50b) of 16 bytes; at least 272 are needed", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, err := devx.Describe(c.b, c.answerOf)
			require.EqualError(t, err, c.want)
			require.Equal(t, c.tree, tree != nil)
			if c.tree {
				checkShown(t, tree, len(c.b))
			}
		})
	}
}

func TestSummary(t *testing.T) {
	for name, want := range map[string]string{
		"nvshmem_create_qp_dci": "CREATE_QP st=DCI pm_state=migrated pd=0x1 log_sq_size=10 uar_page=0x40 cqn_snd=0x86 " +
			"cqn_rcv=0x80 rq_type=1 srqn_rmpn_xrqn=0x20 dbr_umem_valid=1 dbr_umem_id=0x2 wq_umem_id=0x1 wq_umem_valid=1",
		"doca_query_roce_address": "QUERY_ROCE_ADDRESS roce_address_index=0x3",
		"ucx_2err":                "2ERR_QP qpn=0x101",
	} {
		assert.Equal(t, want, devx.Summary(vectors.Bytes(t, "devx_in", name)), name)
	}
	assert.Contains(t, devx.Summary(vectors.Bytes(t, "devx_in", "ucx_init2rtr")),
		" rgid_rip=00000000000000000000ffff7f000001 ")
	assert.Equal(t, "a firmware command of 3 bytes", devx.Summary(make([]byte, 3)))
	assert.Equal(t, "firmware command 0xffff", devx.Summary(mailbox(16, map[int]uint32{0: 0xffff0000})))

	b := bytes.Repeat([]byte{0xff}, 4096)
	binary.BigEndian.PutUint16(b, devx.OpCreateQP)
	s := devx.Summary(b)
	assert.LessOrEqual(t, len(s), 600)
	assert.True(t, strings.HasSuffix(s, " …"), s)
}

func TestUnknown(t *testing.T) {
	c := devx.Find(devx.OpCreateQP)
	assert.Empty(t, c.Unknown(make([]byte, 272)))
	assert.Equal(t, []string{"0x1c bit 27", "0x6c to 0x73", "0xc4 bits 31..30"},
		c.Unknown(mailbox(272, map[int]uint32{0x1c: 0x0f000005, 0x6c: 1, 0x70: 1, 0xc4: 0xc3000000})))
	assert.Equal(t, []string{"0x110 to 0xfff"}, c.Unknown(append(make([]byte, 272), bytes.Repeat([]byte{1}, 4096-272)...)))
	assert.Equal(t, []string{"0x110 bits 31..8"}, c.Unknown(append(make([]byte, 272), 0x80, 0, 1)), "an odd length")

	b := make([]byte, 4096)
	for i := 272; i < len(b); i += 8 {
		b[i] = 1
	}
	places := c.Unknown(b)
	assert.Len(t, places, 9)
	assert.Equal(t, "470 more places", places[8])

	assert.Contains(t, devx.Summary(mailbox(272, map[int]uint32{0: 0x05000000, 0x6c: 1})), "CREATE_QP unknown: 0x6c bit 0")
}
