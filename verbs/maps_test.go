package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// Memory is found where the kernel says that it is mapped, and nowhere else.
func TestMappingsCount(t *testing.T) {
	r := newRig(t)
	r.p.memory.maps = openMaps(int32(os.Getpid()))
	require.NotNil(t, r.p.memory.maps)
	e, err := r.p.memory.make("alloc", 0x1000, 2*pageSize)
	require.NoError(t, err)
	require.NoError(t, r.p.memory.add(e))
	require.Nil(t, r.p.memory.find(0x1000, 8), "nothing of it is mapped there")
	e.addr = e.mem.Addr() // this process has it where the server has it
	require.Same(t, e, r.p.memory.find(e.addr, 2*pageSize))
	require.Nil(t, r.p.memory.find(e.addr, 2*pageSize+1), "it is not as long")
	other, err := shm.Create("other", pageSize)
	require.NoError(t, err)
	at := other.Addr()
	_, err = r.p.memory.maps.over(at, pageSize)
	require.NoError(t, err)
	e.addr = at
	require.Nil(t, r.p.memory.find(at, 8), "something else is mapped there")
	require.NoError(t, other.Close())
	_, err = r.p.memory.maps.over(at, pageSize)
	require.Equal(t, eFAULT, refusalOf(err).errno)
	r.p.memory.letGo(e)
}

func TestRowsOfMaps(t *testing.T) {
	v, ok := parseVMA([]byte("7f6c10000000-7f6c10021000 rw-s 00003000 00:01 3980633    /memfd:nicless:verbs-ring (deleted)"))
	require.True(t, ok)
	require.Equal(t, vma{0x7f6c10000000, 0x7f6c10021000, "rw-s", 0x3000, 3980633, "/memfd:nicless:verbs-ring (deleted)"}, v)
	v, ok = parseVMA([]byte("7ffc0a1b2000-7ffc0a1d3000 rw-p 00000000 00:00 0                          [stack]"))
	require.True(t, ok)
	require.Error(t, remappable([]vma{v}), "a stack")
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
		{vma{perms: "rw-p", name: "/anon_hugepage (deleted)", inode: 9}, false},
	} {
		require.Equal(t, c.ok, remappable([]vma{c.v}) == nil, "%v", c.v)
	}
}
