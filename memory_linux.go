//go:build linux && (amd64 || arm64)

package nicless

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// open checks m and returns the memory, all of which is free. It returns nil if m is nil.
func (m *Memory) open() (*fileMemory, error) {
	if m == nil {
		return nil, nil
	}
	if m.File == nil {
		return nil, wrap("Memory", fmt.Errorf("no File"))
	}
	size, err := m.part()
	if err != nil {
		return nil, wrap("Memory", err)
	}
	raw, err := m.File.SyscallConn()
	if err != nil {
		return nil, wrap("Memory", err)
	}
	var fd int
	if closed := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); closed != nil {
		return nil, wrap("Memory", closed)
	}
	if err != nil {
		return nil, wrap("Memory", err)
	}
	// A memfd that nobody can make shorter is better. Other files do not have seals.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	return &fileMemory{
		file: os.NewFile(uintptr(fd), m.File.Name()), offset: m.Offset, size: size,
		free: []span{{size: uint64(size)}}, used: make(map[uint32]span),
	}, nil
}

// registers returns memory for the UAR pages.
func (f *fileMemory) registers(size int) (r *shm.Region, err error) {
	r, f.uar, err = f.take(size)
	return r, err
}

// close closes the descriptor. The regions stay.
func (f *fileMemory) close() {
	if f != nil {
		_ = f.file.Close()
	}
}
