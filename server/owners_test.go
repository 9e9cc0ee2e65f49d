package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Names the socket to which TestManyUsersOfOneRange's child connects.
const manyUsers = "NICLESS_TEST_MANY_USERS"

// A user that connects under thousands of uids of a user namespace, one after another, gets one
// share. Other users still get their shares.
func TestManyUsersOfOneRange(t *testing.T) {
	if path := os.Getenv(manyUsers); path != "" {
		connectAsMany(t, path)
		return
	}
	needRoot(t)
	const most, base = 64, 100_000
	r := newRig(t, engine.Config{})
	dir := t.TempDir()
	b := nic.Bounds{Connections: most, Subuid: filepath.Join(dir, "subuid"), Passwd: filepath.Join(dir, "passwd")}
	require.NoError(t, os.WriteFile(b.Subuid, []byte("alice:100000:65536\n"), 0o600))
	require.NoError(t, os.WriteFile(b.Passwd, []byte("alice:x:1000:1000::/home/alice:/bin/sh\n"), 0o600))
	r.bound(b)
	path := r.serveAll()
	_, out := asChild(t, "TestManyUsersOfOneRange", manyUsers+"="+path, syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: 65_536}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: 1}},
		Credential:  &syscall.Credential{NoSetGroups: true},
	})
	said := bufio.NewScanner(out)
	require.True(t, said.Scan(), "the child ends without a word")
	require.Equal(t, fmt.Sprintf("%d of %d", most/2, manyTries), said.Text())

	r.dialAs(2000, path).hello()
	r.dial(path).hello()
	c2 := r.dialAs(1000, path)
	// Fails if the server has ended the connection already.
	_, _ = c2.conn.Write(control.Append(nil, control.OpHello, 0, 1, &hello))
	// Because the owner's share is used up.
	c2.ended()
}

const manyTries = 3000

// connectAsMany connects under one uid after another and prints how many connections were served.
// It keeps the connections until its standard input ends.
func connectAsMany(t *testing.T, path string) {
	runtime.LockOSThread()
	served := 0
	var keep []*net.UnixConn
	for i := range manyTries {
		_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(1+i), ^uintptr(0))
		require.Zero(t, errno)
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		require.NoError(t, err)
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
		require.Zero(t, errno)
		_, _ = conn.Write(control.Append(nil, control.OpHello, 0, 1, &hello))
		var b [control.MaxMessage]byte
		if n, err := conn.Read(b[:]); err == nil && n > 0 {
			served++
			keep = append(keep, conn)
		} else {
			_ = conn.Close()
		}
	}
	fmt.Println(strconv.Itoa(served) + " of " + strconv.Itoa(manyTries))
	_, _ = os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(keep)
}
