package doorbell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPending(t *testing.T) {
	for _, c := range []struct {
		name     string
		word     uint32
		consumed uint16
		ring     int
		n        int
		ok       bool
	}{
		{"nothing new", 5, 5, 16, 0, true},
		{"one block", 6, 5, 16, 1, true},
		{"ring full", 21, 5, 16, 16, true},
		{"one more than the ring holds", 22, 5, 16, 0, false},
		{"counter went back", 4, 5, 16, 0, false},
		{"16-bit wrap", 2, 0xfffe, 16, 4, true},
		{"client writes 24 bits", 0x010005, 0xffff, 16, 6, true},
		{"client writes 32 bits", 0x12340007, 0, 16, 7, true},
		{"largest ring, full", 0x8000, 0, MaxRing, MaxRing, true},
		{"largest ring, went back", 0xffff, 0, MaxRing, 0, false},
		{"ring of one", 1, 0, 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, ok := Pending(c.word, c.consumed, c.ring)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.n, n)
		})
	}
}

func TestInUse(t *testing.T) {
	require.EqualValues(t, 3, InUse(10, 7))
	require.EqualValues(t, 3, InUse(1<<24+1, 0xfffffe), "across the 24-bit wrap")
	require.EqualValues(t, 0, InUse(1<<40|7, 0xab000007), "bits above 24 do not count")
}

func TestRecordWordsLieInOrder(t *testing.T) {
	b := [RecordSize]byte{0, 0, 0, 2, 0, 1, 0, 5}
	r := ParseRecord(&b)
	require.EqualValues(t, 2, Counter(r[RecvWord]))
	require.EqualValues(t, 5, Counter(r[SendWord]))
	require.EqualValues(t, 0x010005, CI(r[ArmWord]))
	var out [RecordSize]byte
	r.Put(&out)
	require.Equal(t, b, out)
}

func TestMakersCutToWidth(t *testing.T) {
	require.Equal(t, Arm{SN: 1, CI: 2}, ParseArm(Arm{SN: 5, CI: 0x01000002}.Word()))
	require.EqualValues(t, 0xffffff, MakeArmRegister(Arm{}, 0xffffffff).CQN())
	r := MakeRing(11, 0xff001234)
	require.EqualValues(t, 0x00000b00_00123400, r)
}

func TestRegister(t *testing.T) {
	for _, c := range []struct {
		name      string
		off       uint32
		reg, half int
		ok, start bool
	}{
		{"CQ arm is not one", CQArmOffset, 0, 0, false, false},
		{"last byte before", BFOffset - 1, 0, 0, false, false},
		{"first", 0x800, 0, 0, true, true},
		{"inside a BlueFlame copy", 0x840, 0, 0, true, false},
		{"other half", 0x900, 0, 1, true, true},
		{"second register", 0xa00, 1, 0, true, true},
		{"last half", 0xf00, 3, 1, true, true},
		{"last byte", 0xfff, 3, 1, true, false},
		{"next page", 0x1000, 0, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg, half, ok := Register(c.off)
			require.Equal(t, []any{c.reg, c.half, c.ok, c.start}, []any{reg, half, ok, IsRegister(c.off)})
			if c.start {
				require.True(t, IsRegister(OtherHalf(c.off)))
				other, otherHalf, _ := Register(OtherHalf(c.off))
				require.Equal(t, []int{reg, 1 - half}, []int{other, otherHalf})
			}
		})
	}
	require.Equal(t, 4, BFRegs)
}

func TestBlueFlameSize(t *testing.T) {
	for _, c := range []struct {
		ds uint8
		n  int
		ok bool
	}{{0, 0, false}, {1, 64, true}, {4, 64, true}, {5, 128, true}, {16, 256, true}, {17, 320, false}, {63, 1024, false}} {
		n, ok := BlueFlameSize(c.ds)
		require.Equal(t, []any{c.n, c.ok}, []any{n, ok}, "ds %d", c.ds)
	}
}
