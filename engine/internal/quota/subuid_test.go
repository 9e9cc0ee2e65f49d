package quota

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ownersOf returns owners that read a passwd file, and a subuid file with the text subuid.
func ownersOf(t *testing.T, subuid string) *owners {
	dir := t.TempDir()
	o := &owners{subuid: filepath.Join(dir, "subuid"), passwd: filepath.Join(dir, "passwd")}
	require.NoError(t, os.WriteFile(o.passwd, []byte("root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\nbob:x:many:1\n"), 0o600))
	require.NoError(t, os.WriteFile(o.subuid, []byte(subuid), 0o600))
	return o
}

// A uid in a range belongs to the range's owner.
func TestOwnersOfRanges(t *testing.T) {
	o := ownersOf(t, "alice:100000:65536\n1001:165536:10\ncarol:200000:5\n"+
		"\n# no comments in this format\nalice:x:1\nalice:1\nalice:300000:-4\nalice:99999999999:1\n:400000:5\nalice:500000:0\n"+
		"carol:300000:5\nalice:4294967290:100\nalice:600000:7") // without an end of line
	for uid, owner := range map[uint32]uint32{
		0: 0, 1000: 1000, 99_999: 99_999,
		100_000: 1000, 165_535: 1000,
		165_536: 1001, 165_545: 1001, 165_546: 165_546,
		// In the two ranges of a name that is not in passwd.
		200_004: 200_000, 300_004: 200_000, 300_005: 300_005,
		1: 1, 400_000: 400_000, 500_000: 500_000, // broken lines
		600_006: 1000, 4_294_967_291: 1000, 5: 5,
	} {
		require.Equal(t, owner, o.of(uid), "uid %d", uid)
	}
}

// The subuid file is read again when it is changed, replaced or removed.
func TestOwnersAreReadAgain(t *testing.T) {
	o := ownersOf(t, "alice:100000:10\n")
	require.EqualValues(t, 1000, o.of(100_009))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(o.subuid, "alice:100000:1000\n")
	require.EqualValues(t, 1000, o.of(100_999), "of another size")
	st, err := os.Stat(o.subuid)
	require.NoError(t, err)
	write(o.subuid+"-", "alice:200000:1000\n")
	require.NoError(t, os.Chtimes(o.subuid+"-", st.ModTime(), st.ModTime()))
	require.NoError(t, os.Rename(o.subuid+"-", o.subuid))
	require.EqualValues(t, 1000, o.of(200_999), "another file, of the same size and time")
	write(o.subuid, "alice:300000:1000\n")
	require.NoError(t, os.Chtimes(o.subuid, time.Unix(1, 0), time.Unix(1, 0)))
	require.EqualValues(t, 1000, o.of(300_999), "of another time")
	require.NoError(t, os.Remove(o.subuid))
	require.EqualValues(t, 300_999, o.of(300_999))
	require.NoError(t, os.Mkdir(o.subuid, 0o700))
	require.EqualValues(t, 300_999, o.of(300_999))
	require.NoError(t, os.Remove(o.subuid))
	write(o.subuid, "alice:300000:1000\n")
	require.EqualValues(t, 1000, o.of(300_999))
}
