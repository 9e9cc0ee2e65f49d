package shm

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const isChild = "NICLESS_SHM_CHILD"

// The other process: it gets a region as descriptor 3 and a read-only one as 4.
func TestChildProcess(t *testing.T) {
	if os.Getenv(isChild) == "" {
		t.Skip("runs as a child of TestTwoProcesses")
	}
	attached, err := Attach(os.NewFile(3, "region"), false)
	shared := closing(t, attached, err)
	for n := range uint64(16) {
		b := BlockAt(shared.Bytes(), n*64)
		require.Equal(t, n+1, b.ObserveTail())
		require.Equal(t, *numbered(n + 1), [64]byte(*b))
	}
	attached, err = AttachReadOnly(os.NewFile(4, "status"))
	status := closing(t, attached, err)
	require.Equal(t, uint64(77), Word64At(status.Bytes(), 8).Observe())
	_, err = unix.Mmap(4, 0, PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.Equal(t, unix.EPERM, err)
	require.Equal(t, unix.EPERM, unix.Ftruncate(3, 0))

	BE32At(shared.Bytes(), 2048).Publish(0xabcdef01)
}

func TestTwoProcesses(t *testing.T) {
	made, err := Create("shared", PageSize)
	shared := closing(t, made, err)
	made, err = CreateSealed("status", PageSize)
	status := closing(t, made, err)
	for n := range uint64(16) {
		BlockAt(shared.Bytes(), n*64).Publish(numbered(n + 1))
	}
	Word64At(status.Bytes(), 8).Publish(77)

	child := exec.Command(os.Args[0], "-test.run=^TestChildProcess$", "-test.v")
	child.Env = append(os.Environ(), isChild+"=1")
	child.ExtraFiles = []*os.File{shared.File(), status.File()}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: TestChildProcess")
	assert.Equal(t, uint32(0xabcdef01), BE32At(shared.Bytes(), 2048).Observe())
}
