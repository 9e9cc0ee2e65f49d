//go:build !linux

package shm

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/platform"
)

// errSystem says that this system has no shared memory that this package can use. Words, blocks
// and heap memory work on every system.
var errSystem = platform.Unsupported("shm: shared memory")

// A mapping is memory that is mapped: on this system there is none.
type mapping []byte

func (m *mapping) Unmap() error { return nil }

// Create fails on this system.
func Create(string, int) (*Region, error) { return nil, errSystem }

// CreateSealed fails on this system.
func CreateSealed(string, int) (*Region, error) { return nil, errSystem }

// Attach fails on this system. It closes f.
func Attach(f *os.File, _ bool) (*Region, error) { return nil, errors.Join(errSystem, f.Close()) }

// AttachPart returns an error, because only Linux has memfds.
func AttachPart(syscall.Conn, int64, int) (*Region, error) { return nil, errSystem }

// Join fails on this system.
func Join(...[]byte) (*Region, error) { return nil, errSystem }

// AttachReadOnly fails on this system. It closes f.
func AttachReadOnly(f *os.File) (*Region, error) { return nil, errors.Join(errSystem, f.Close()) }

// The methods of a region. On this system they only see heap memory.

func (r *Region) Seal() error           { return nil }
func (r *Region) Sealed() bool          { return true }
func (r *Region) CloseFile() error      { return nil }
func (r *Region) Prefault([]byte)       {}
func (r *Region) Populate([]byte) error { return nil }
func (r *Region) Reserve()              {}
func (r *Region) Release() error        { return nil }

func hollow([]byte) error { return errSystem }

type hold struct{}

func (hold) release() {}

// HoldCost returns zeros on this system.
func HoldCost(int) (descriptors, pipePages int) { return 0, 0 }

// HoldBytes returns 0 on this system.
func HoldBytes(int) int { return 0 }

// CanBarrier returns false on this system.
func CanBarrier() bool { return false }

// JoinBarrier fails on this system.
func JoinBarrier() error { return errSystem }

// Barrier fails on this system.
func Barrier() error { return errSystem }

// Sleep fails on this system.
func (p *BE32) Sleep(uint32, time.Duration) error { return errSystem }

// Wake fails on this system.
func (p *BE32) Wake() error { return errSystem }
