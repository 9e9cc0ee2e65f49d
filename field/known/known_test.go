package known_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
)

// Every syndrome that package cqe names has a row with causes, and each cause names a code of the
// page or none.
func TestTables(t *testing.T) {
	named := 0
	for n := range 256 {
		s := cqe.Syndrome(n)
		about, ok := known.AboutSyndrome(s)
		require.Equal(t, !strings.HasPrefix(s.Error(), "unknown"), ok, "syndrome 0x%02x", n)
		assert.NotEmpty(t, about.Means)
		if ok {
			named++
			require.NotEmpty(t, about.Causes, "%v", s)
			back, ok := known.OfStatus(s.Status())
			require.True(t, ok)
			require.Equal(t, s, back)
		}
		for _, c := range about.Causes {
			_, ok := known.Explain(c.Code)
			assert.True(t, ok || c.Code == "", "%v: code %q", s, c.Code)
			assert.Regexp(t, `[^.]$`, c.Text)
			assert.NotEqual(t, "unknown", c.Sure.String())
		}
	}
	require.Len(t, known.Syndromes(), named)
	last := 0
	for _, v := range known.Vendors() {
		at := int(v.Syndrome)<<8 | int(v.Byte)
		assert.Greater(t, at, last, "order of 0x%02x 0x%02x", uint8(v.Syndrome), v.Byte)
		last = at
		assert.NotEmpty(t, v.Source)
		about, _, ok := known.AboutVendor(v.Syndrome, v.Byte)
		assert.True(t, ok)
		assert.Equal(t, v, about)
	}
	_, others, ok := known.AboutVendor(cqe.LocalProtection, 0x99)
	require.False(t, ok)
	require.Len(t, others, 5)
}

// Words that people paste lead to the row.
func TestFind(t *testing.T) {
	for words, want := range map[string]cqe.Syndrome{
		"0x10":                                 cqe.BadResponse,
		"syndrome 0x10":                        cqe.BadResponse,
		"syndrome 0x10 vendor 0x88":            cqe.BadResponse,
		"synd 0x15":                            cqe.TransportRetry,
		"10":                                   cqe.RemoteAccess,
		"status 10":                            cqe.RemoteAccess,
		"status=12":                            cqe.TransportRetry,
		"IBV_WC_REM_ACCESS_ERR":                cqe.RemoteAccess,
		"rem_access_err":                       cqe.RemoteAccess,
		"IB_WC_MW_BIND_ERR":                    cqe.MWBind,
		"MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR": cqe.RemoteAborted,
		"RemoteAccess":                         cqe.RemoteAccess,
		"Remote access error":                  cqe.RemoteAccess,
		"transport retry counter exceeded":     cqe.TransportRetry,
		"RNR retry counter exceeded":           cqe.RNRRetry,
		"Failed status transport retry counter exceeded (12) for wr_id 2": cqe.TransportRetry,
		"vendor 0x81": cqe.TransportRetry,
		"NET/IB : Got completion with error 12, opcode 1, len 32, vendor err 129": cqe.TransportRetry,
	} {
		a, err := known.Find(words)
		require.NoError(t, err, words)
		require.NotNil(t, a.Syndrome, words)
		assert.Equal(t, want, a.Syndrome.Value, words)
	}
	for _, words := range []string{"general error", "21", "IBV_WC_GENERAL_ERR", "status=21 vendor err 7"} {
		a, err := known.Find(words)
		require.NoError(t, err, words)
		require.Zero(t, a.Syndrome.Value, words)
	}
	a, err := known.Find("syndrome 0x13 vendor 0x88")
	require.NoError(t, err)
	require.Equal(t, uint8(0x88), *a.Vendor)
	for _, e := range known.Explanations() {
		a, err := known.Find(e.Name)
		require.NoError(t, err)
		require.Equal(t, e, *a.Explanation)
	}
	a, err = known.Find("nicless: explanation: pid 1: nicless0: queue 0x69712c: receive 0 takes 1024 bytes (receive-short)")
	require.NoError(t, err)
	require.Equal(t, "receive-short", a.Explanation.Name)
	require.Equal(t, uint32(0x69712c), *a.Facts.QPN)
}

func TestFindNothing(t *testing.T) {
	for words, want := range map[string]string{
		"key-acess":     `nothing is known about "key-acess"; the nearest names are key-access`,
		"receive":       `receive-none`,
		"rem_acess_err": `REM_ACCESS_ERR`,
		"xyzzy":         `^nothing is known about "xyzzy"$`,
		"":              `^nothing is known about ""$`,
		"vendor 0x01":   "vendor byte 0x01 has not been seen in public",
		"mlx5dv_devx_obj_create(QP) failed, syndrome 0x5000380: Remote I/O error":                      `if nicless has refused it, for CREATE_QP, pd \(0x1c bits 23\.\.0\)`,
		"mlx5_cmd_check:795: RTR2RTS_QP(0x504) failed, status bad parameter(0x3), syndrome (0x4bb88f)": "0x4bb88f is that of a firmware command",
		"\x1b[31mred\n":             `^nothing is known about "\\x1b\[31mred"$`,
		strings.Repeat("ä", 50):     `^nothing is known about "ä{20}…"$`,
		strings.Repeat("x", 70<<10): `^a text of 71680 bytes; at most 65536 are read$`,
	} {
		_, err := known.Find(words)
		require.Error(t, err, words)
		assert.Regexp(t, regexp.MustCompile(want), err.Error())
	}
}

// Two numbers are a syndrome and a vendor byte. A syndrome that no header names is a vendor byte, or an
// error.
func TestFindNumbers(t *testing.T) {
	for _, words := range []string{"0x13 0x88", "0x13, 0x88", "0x13/0x88"} {
		a, err := known.Find(words)
		require.NoError(t, err)
		require.Equal(t, cqe.RemoteAccess, a.Syndrome.Value)
		require.Equal(t, uint8(0x88), *a.Vendor)
	}
	for words, want := range map[string]cqe.Syndrome{
		"0x52": cqe.LocalProtection, "0xf9": cqe.Flush, "0xF9": cqe.Flush, "syndrome 0x52": cqe.LocalProtection,
	} {
		a, err := known.Find(words)
		require.NoError(t, err, words)
		require.Equal(t, want, a.Syndrome.Value, words)
		require.NotNil(t, a.Vendor, words)
		require.Contains(t, a.Note, "is read as a vendor syndrome (byte 54)")
	}
	for words, want := range map[string]string{"0x99": "no public header names syndrome 0x99",
		"syndrome 0x99": "no public header names syndrome 0x99", "0x99 0x88": "nothing is known", "0x13 0x888": "nothing is known"} {
		_, err := known.Find(words)
		require.ErrorContains(t, err, want)
	}
}
