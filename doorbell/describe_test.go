package doorbell

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribeAsJSON(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  Kind
		bytes string
		want  string
	}{
		{"whole record of a QP", QPRecord, "00020001 00010005", `{"register":"qp_dbrec",
			"recv":{"register":"qp_dbrec[0]","raw":"0x00020001","counter":1},
			"send":{"register":"qp_dbrec[1]","raw":"0x00010005","counter":5}}`},
		{"one word of it", QPRecord, "00010005", `{"register":"qp_dbrec","raw":"0x00010005","counter":5}`},
		{"record of an SRQ", SRQRecord, "00000009", `{"register":"srq_dbrec","raw":"0x00000009","counter":9}`},
		{"whole record of a CQ", CQRecord, "ff000007 11000007", `{"register":"cq_dbrec",
			"set_ci":{"register":"cq_dbrec[0]","raw":"0xff000007","counter":7},
			"arm":{"register":"cq_dbrec[1]","arm_sn":1,"cmd_solicited":1,"ci":7}}`},
		{"arm word alone", CQArmWord, "30000001", `{"register":"cq_dbrec[1]","arm_sn":3,"cmd_solicited":0,"ci":1}`},
		{"arm register alone", CQArm, "30000001 00000405", `{"register":"cq_arm","arm_sn":3,"cmd_solicited":0,"ci":1,"cqn":1029}`},
		{"reserved bits", CQArm, "c0000001 ff000405", `{"register":"cq_arm","arm_sn":0,"cmd_solicited":0,"ci":1,
			"rsvd":"0xc0000000","cqn":1029,"cqn_rsvd":"0xff000000"}`},
		{"record and register differ", CQArm, "00000002 10000003 00000405", `{
			"record":{"register":"cq_dbrec[1]","arm_sn":0,"cmd_solicited":0,"ci":2},
			"register":"cq_arm","arm_sn":1,"cmd_solicited":0,"ci":3,"cqn":1029}`},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(c.bytes, " ", ""))
		require.NoError(t, err)
		tree, err := Describe(c.kind, b)
		require.NoError(t, err, c.name)
		got, err := json.Marshal(tree)
		require.NoError(t, err, c.name)
		require.JSONEq(t, c.want, string(got), c.name)
	}
}

func TestDescribeForPeople(t *testing.T) {
	b := make([]byte, 64)
	copy(b, []byte{0x02, 0x00, 0x0c, 0x08, 0x00, 0x12, 0x34, 0x03})
	tree, err := Describe(BlueFlame, b)
	require.NoError(t, err)
	var s strings.Builder
	require.NoError(t, tree.Print(&s, b))
	require.Contains(t, s.String(), "00  02                       -  opmod, or bits of an index that was not masked\n")
	require.Contains(t, s.String(), "07  03                       ds           3  48 bytes of WQE\n")
	require.Contains(t, s.String(), "30  00 00 00 00 00 00 00 00  -  stale\n")

	b[7] = 5
	tree, err = Describe(BlueFlame, b)
	require.NoError(t, err)
	s.Reset()
	require.NoError(t, tree.Print(&s, b))
	require.Contains(t, s.String(), "80 bytes of WQE, more than was copied")
	require.NotContains(t, s.String(), "stale")
}

func TestDescribeRefuses(t *testing.T) {
	_, err := Describe(QPRecord, make([]byte, 5))
	require.EqualError(t, err, "doorbell: 5 bytes; qp_dbrec is 8 or 4")
	_, err = Describe(BlueFlame, make([]byte, 320))
	require.EqualError(t, err, "doorbell: 320 bytes; bf is 64 or 128 or 192 or 256")
	_, err = Describe("qp", make([]byte, 8))
	require.EqualError(t, err, `doorbell: kind "qp"; one of qp_dbrec, qp_dbrec[0], qp_dbrec[1], `+
		`srq_dbrec, srq_dbrec[0], cq_dbrec, cq_dbrec[0], cq_dbrec[1], cq_arm, uar_db, bf`)
}

func TestNothingAllocates(t *testing.T) {
	var b [8]byte
	var sum uint64
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r := MakeRing(1, 2)
		r.Put(&b)
		n, _ := Pending(ParseRecord(&b)[SendWord], 0, MaxRing)
		a := MakeArmRegister(Arm{SN: 1, CI: uint32(n)}, 3)
		sum += uint64(a) + uint64(ParseRing(&b)) + uint64(a.Arm().Word())
	}))
	require.NotZero(t, sum)
}
