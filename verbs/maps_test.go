package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory is found where the kernel says that it is mapped, and nowhere else.
func TestMappingsCount(t *testing.T) {
	r := newRig(t)
	r.p.memory.maps = openMaps(int32(os.Getpid()))
	require.NotNil(t, r.p.memory.maps)
	e, err := r.p.memory.make("alloc", 0x1000, 2*pageSize)
	require.NoError(t, err)
	require.NoError(t, r.p.memory.add(e))
	require.NoError(t, e.mem.Seal())
	find := func(addr, n uint64) *extent {
		e, err := r.p.memory.find(addr, n)
		require.NoError(t, err)
		return e
	}
	require.Nil(t, find(0x1000, 8), "nothing of it is mapped there")
	e.addr = e.mem.Addr() // this process is also the server, which has mapped the extent there
	require.Same(t, e, find(e.addr, 2*pageSize))
	require.Nil(t, find(e.addr, 2*pageSize+1), "it is not as long")
	other, err := shm.Create("other", pageSize)
	require.NoError(t, err)
	at := other.Addr()
	all := func(vma) error { return nil }
	require.NoError(t, r.p.memory.maps.over(at, pageSize, all))
	e.addr = at
	require.Nil(t, find(at, 8), "something else is mapped there")
	require.NoError(t, other.Close())
	require.Equal(t, eFAULT, refusalOf(r.p.memory.maps.over(at, pageSize, all)).errno)
	r.p.memory.endHold(e)
}

// The text of /proc/PID/maps can be very long. No part of it is kept.
func TestMappingsAreNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	var text bytes.Buffer
	const rows, size = 5_000, 0x1000
	name := strings.Repeat("x", 4000)
	for i := range uint64(rows) {
		fmt.Fprintf(&text, "%08x-%08x rw-p 00000000 00:01 7    /%s\n", i*size, (i+1)*size, name)
	}
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	m := &maps{f}
	defer m.close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, most := 0, uint64(0)
	require.NoError(t, m.over(0, rows*size, func(v vma) error {
		n++
		if n%500 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
		return nil
	}))
	require.Equal(t, rows, n)
	require.Less(t, int64(most)-int64(before.HeapAlloc), int64(4<<20), "of %d bytes", text.Len())
	require.ErrorContains(t, m.over(0, (rows+1)*size, func(vma) error { return nil }), "nothing is mapped at 0x1388000")
}

func TestRowsOfMaps(t *testing.T) {
	v, ok := parseVMA([]byte("7f6c10000000-7f6c10021000 rw-s 00003000 00:01 3980633    /memfd:nicless:verbs-ring (deleted)"))
	require.True(t, ok)
	require.Equal(t, vma{0x7f6c10000000, 0x7f6c10021000, "rw-s", 0x3000, 3980633, "/memfd:nicless:verbs-ring (deleted)", 0}, v)
	v, ok = parseVMA([]byte("7ffc0a1b2000-7ffc0a1d3000 rw-p 00000000 00:00 0                          [stack]"))
	require.True(t, ok)
	require.Error(t, remappable(v, needRemap), "a stack")
	for _, bad := range []string{"", "x", "1-2 rw-p 0 00:00", "1-zz rw-p 0 00:00 0 x"} {
		_, ok := parseVMA([]byte(bad))
		require.False(t, ok, bad)
	}
	for _, c := range []struct {
		v  vma
		ok bool
	}{
		{vma{perms: "rw-p"}, true},
		{vma{perms: "rw-p", name: "[heap]"}, true},
		{vma{perms: "r--p"}, false},
		{vma{perms: "rw-p", inode: 5, name: "/lib/x.so"}, false},
		{vma{perms: "rw-s", inode: 5, name: "/dev/shm/x"}, false},
		{vma{perms: "rw-s", inode: 5, name: "/memfd:nicless:verbs-remap (deleted)"}, true},
		{vma{perms: "rw-s", name: "/anon_hugepage (deleted)", inode: 9}, false},
	} {
		require.Equal(t, c.ok, remappable(c.v, needRemap) == nil, "%v", c.v)
		require.Equal(t, c.ok, remappable(c.v, needTryRemap) == nil, "%v", c.v)
	}
	v, ok = parseVMA([]byte("7f0238400000-7f0238600000 rw-p 00000000 00:0f 9    /anon_hugepage (deleted)"))
	require.True(t, ok)
	require.EqualValues(t, usualHugePage, v.huge)
	require.NoError(t, remappable(v, needRemap), "a queue in a huge page")
	require.Error(t, remappable(v, needTryRemap), "registered memory in a huge page")
}

// The kernel's query for the mapping at one address returns what the text of the maps says.
func TestMappingsAsAskedAndAsRead(t *testing.T) {
	m := openMaps(int32(os.Getpid()))
	require.NotNil(t, m)
	defer m.close()
	mem, err := shm.Create("maps", 2*pageSize)
	require.NoError(t, err)
	defer mem.Close()
	on := new(byte)
	if _, err := m.at(mem.Addr()); errors.Is(err, unix.ENOTTY) {
		t.Skip("this kernel cannot be asked; Linux 6.11 can")
	}
	for _, addr := range []uint64{mem.Addr(), mem.Addr() + pageSize, uint64(uintptr(reflect.ValueOf(on).Pointer())), uint64(reflect.ValueOf(openMaps).Pointer())} {
		asked, err := m.at(addr)
		require.NoError(t, err)
		var read []vma
		require.NoError(t, m.read(addr, 1, func(v vma) error { read = append(read, v); return nil }))
		require.Equal(t, []vma{asked}, read)
	}
	_, err = m.at(0)
	require.ErrorIs(t, err, unix.ENOENT)
	require.Equal(t, refusalOf(m.read(0, 8, nil)), refusalOf(m.over(0, 8, nil)))
}
