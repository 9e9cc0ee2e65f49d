package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/stretchr/testify/require"
)

// GUIDs depend on all that a machine is, stay as long as that does, and do not show the machine's id.
func TestGUIDsOfMachines(t *testing.T) {
	m := machine{id: "0123456789abcdef0123456789abcdef", uid: 1000, dir: "/run/user/1000/nicless"}
	others := []machine{m, m, m, m}
	others[0].id = "0123456789abcdef0123456789abcdee"
	others[1].host = "container"
	others[2].uid = 1001
	others[3].dir = "/tmp/nicless-1000"
	seen := map[uint64]bool{m.guid(0): true}
	for i := range mostIndexes {
		require.NoError(t, engine.CheckGUID(m.guid(i), 1))
		require.Equal(t, m.guid(i), m.guid(i))
		if i > 0 {
			require.False(t, seen[m.guid(i)], "index %d", i)
			seen[m.guid(i)] = true
		}
	}
	for _, o := range others {
		require.False(t, seen[o.guid(0)], "%+v", o)
	}
}

// Of engines that run at once, the first has the first GUID; when it ends, the next that starts has it.
func TestGUIDsOfEngines(t *testing.T) {
	m := machine{id: "0123456789abcdef0123456789abcdef", dir: t.TempDir()}
	claim := func() *claim {
		c, err := m.claim(2)
		require.NoError(t, err)
		require.NotNil(t, c)
		t.Cleanup(c.release)
		return c
	}
	first, second := claim(), claim()
	require.Equal(t, m.guid(0), first.first)
	require.Equal(t, m.guid(1), second.first)
	first.release()
	require.Equal(t, m.guid(0), claim().first)
	require.Equal(t, m.guid(2), claim().first)

	// All devices of an engine have GUIDs that no other engine has.
	_, err := claimGUIDs(m.dir, m.guid(1)+1, 1)
	require.ErrorIs(t, err, errTaken)
	c, err := claimGUIDs(m.dir, m.guid(1)+2, 1)
	require.NoError(t, err)
	c.release()
}

// A GUID that is set is an EUI-64 of one device, and no other engine of the user has it.
func TestGUIDFlag(t *testing.T) {
	run := t.TempDir()
	require.NoError(t, os.Chmod(run, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", run)
	var said bytes.Buffer
	c, err := claimGUID("0211:22ff:fe33:4455", 2, &said)
	require.NoError(t, err)
	t.Cleanup(c.release)
	require.EqualValues(t, 0x021122fffe334455, c.first)
	for set, speaks := range map[string]string{
		"02-11-22-ff-fe-33-44-56": "GUID 021122fffe334456: another engine of yours has it",
		"0x021122fffe334454":      "GUID 021122fffe334455: another engine of yours has it",
		"":                        "is not a GUID",
		"1":                       "is not a GUID",
		"021122fffe33445g":        "is not a GUID",
		"0000:0000:0000:0000":     "GUID 0 is reserved",
		"ffff:ffff:ffff:ffff":     "is of a group",
		"02ff:ffff:ffff:ffff":     "is of a group",
	} {
		if set == "" {
			_, err = parseGUID("engine", set, 2)
		} else {
			_, err = claimGUID(set, 2, &said)
		}
		require.ErrorContains(t, err, speaks, set)
	}
	require.Empty(t, said.String())

	// Without a directory of the user's own, the GUID is one by chance, and a GUID that is set is refused.
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", filepath.Join(run, "missing"))
	c, err = claimGUID("", 1, &said)
	require.NoError(t, err)
	require.Nil(t, c)
	require.Contains(t, said.String(), "the engine's GUID is one by chance")
	_, err = claimGUID("0211:22ff:fe33:4457", 1, &said)
	require.Error(t, err)
}
