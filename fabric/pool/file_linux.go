package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// canFlush reports whether coherence=none is possible on this machine.
var canFlush = cpu.CanFlushLines()

// A file is memory that can be a pool.
type file struct {
	size uint64 // bytes of it
	unit uint64 // mappings begin and end at multiples of this
	kind string // for errors
	grow bool   // an ordinary file, which can be made larger
}

// attach maps the pool's memory. A node that formats makes the file if it does not exist. The other nodes
// wait for it, as for the header. cfg has its defaults.
func attach(ctx context.Context, cfg *Config, w *waiting, t timer) (*shm.Region, error) {
	for {
		r, err := attachNow(cfg)
		if err == nil || cfg.Node <= 0 || !errors.Is(err, errNotYet) {
			return r, err
		}
		if err := w.tick(ctx, cfg, t, err); err != nil {
			return nil, err
		}
	}
}

// errNotYet says that node 0 may still make the file.
var errNotYet = errors.New("the file is not there yet")

func attachNow(cfg *Config) (*shm.Region, error) {
	m := Memory{Path: cfg.Path, Offset: cfg.Offset, Size: cfg.Size}
	if cfg.Node <= 0 {
		m.Make = defaultSize
		if cfg.Size != 0 {
			m.Make = cfg.Size
		}
		// Before a file is left that is too small for others.
		m.fits = func(size uint64) error { _, err := plan(cfg, size); return err }
		m.begins = mayBePool
	}
	return m.Map()
}

// A Memory is a part of a file or device that hosts or programs share: a file of tmpfs or hugetlbfs, a DAX
// device, or the resource file of a PCI device.
type Memory struct {
	Path   string
	Offset uint64 // bytes; a multiple of the page size, or of what the device needs
	Size   uint64 // bytes; 0: all behind Offset

	// Make is how many bytes behind Offset an ordinary file gets that is empty, or shorter than Offset +
	// Size. 0: it is not made longer.
	Make uint64

	fits   func(size uint64) error  // checks the size before a file is made longer; can be nil
	begins func(first []byte) error // checks what an ordinary file has already; can be nil
}

// Map maps the memory. The error wraps errNotYet if the file is missing or shorter than that, and another
// program may still make it.
func (m *Memory) Map() (*shm.Region, error) {
	flags := os.O_RDWR
	if m.Make != 0 && !isDevice(m.Path) {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(m.Path, flags, 0o600)
	switch {
	case errors.Is(err, os.ErrNotExist) && missing(filepath.Dir(m.Path)):
		return nil, fmt.Errorf("the directory %s does not exist", filepath.Dir(m.Path))
	case errors.Is(err, os.ErrNotExist) && m.Make == 0:
		return nil, fmt.Errorf("%w: %w", errNotYet, err)
	case err != nil:
		return nil, err
	}
	defer func() { _ = f.Close() }()
	what, err := examine(f)
	if err != nil {
		return nil, err
	}
	if m.begins != nil && what.grow {
		err := m.readFirst(f)
		if err != nil { // perhaps a header was being written between two words that were read
			err = m.readFirst(f)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.Make != 0 && what.grow && (what.size <= m.Offset || what.size < m.Offset+m.Size) {
		if err := m.grow(f, &what); err != nil {
			return nil, err
		}
	}
	size, err := what.part(m)
	if err != nil {
		return nil, err
	}
	// A memfd that cannot be made shorter is better. Other files do not have seals.
	_, _ = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	r, err := shm.AttachPart(f, int64(m.Offset), int(size))
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s from %d on: %w", size, what.kind, m.Offset, err)
	}
	return r, nil
}

// readFirst lets begins check the first bytes of the memory.
func (m *Memory) readFirst(f *os.File) error {
	first := make([]byte, readBytes)
	n, err := f.ReadAt(first, int64(m.Offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return m.begins(first[:n])
}

// grow makes the file longer.
func (m *Memory) grow(f *os.File, what *file) error {
	want := (m.Offset + m.Make + what.unit - 1) &^ (what.unit - 1)
	if m.fits != nil {
		if err := m.fits(want - m.Offset); err != nil {
			return err
		}
	}
	if err := f.Truncate(int64(want)); err != nil {
		return fmt.Errorf("make %s of %d bytes: %w", what.kind, want, err)
	}
	what.size = want
	return nil
}

// missing reports whether there is certainly no file of this name.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// isDevice reports whether a path must not be created.
func isDevice(path string) bool {
	path = filepath.Clean(path)
	for _, dir := range []string{"/dev/", "/sys/", "/proc/"} {
		if strings.HasPrefix(path, dir) && !strings.HasPrefix(path, "/dev/shm/") &&
			!strings.HasPrefix(path, "/dev/hugepages/") {
			return true
		}
	}
	return false
}

// part returns how many bytes of the file are used.
func (w *file) part(m *Memory) (uint64, error) {
	switch {
	case m.Offset%w.unit != 0:
		return 0, fmt.Errorf("offset=%d; %s needs a multiple of %d", m.Offset, w.kind, w.unit)
	case m.Offset >= w.size:
		if w.grow {
			return 0, fmt.Errorf("%w: offset=%d, and the file has %d bytes", errNotYet, m.Offset, w.size)
		}
		return 0, fmt.Errorf("offset=%d; %s has %d bytes", m.Offset, w.kind, w.size)
	}
	size := w.size - m.Offset
	if m.Size != 0 {
		if m.Size > size {
			if w.grow {
				return 0, fmt.Errorf("%w: size=%d, and the file has %d bytes from offset=%d on", errNotYet, m.Size, size, m.Offset)
			}
			return 0, fmt.Errorf("size=%d; %s has %d bytes from offset=%d on", m.Size, w.kind, size, m.Offset)
		}
		size = m.Size
	}
	if size = min(size, shm.MaxRegion) &^ (w.unit - 1); size == 0 {
		return 0, fmt.Errorf("%s has less than %d bytes", w.kind, w.unit)
	}
	return size, nil
}

// examine finds out what a file is.
func examine(f *os.File) (file, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return file{}, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		w := file{size: uint64(st.Size), unit: shm.PageSize, kind: "the file", grow: true}
		var fs unix.Statfs_t
		if unix.Fstatfs(int(f.Fd()), &fs) == nil {
			switch uint64(fs.Type) & 0xffffffff {
			case unix.HUGETLBFS_MAGIC & 0xffffffff:
				w.unit, w.kind = uint64(st.Blksize), "a file of hugetlbfs"
			case unix.SYSFS_MAGIC:
				w.kind, w.grow = "the PCI device's memory", false
			}
		}
		return w, nil
	case unix.S_IFCHR:
		return examineDAX(fmt.Sprintf("/sys/dev/char/%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
	}
	return file{}, fmt.Errorf("it is neither a file nor a DAX device")
}

// examineDAX reads what the kernel says of a DAX device.
func examineDAX(dir string) (file, error) {
	size, err := sysfsNumber(dir + "/size")
	if err != nil {
		return file{}, fmt.Errorf("it is a character device, and not a DAX device: %w", err)
	}
	w := file{size: size, unit: 2 << 20, kind: "the DAX device"}
	for _, name := range []string{"/align", "/device/align"} {
		align, err := sysfsNumber(dir + name)
		if err == nil && align >= shm.PageSize && align&(align-1) == 0 {
			w.unit = align
			break
		}
	}
	return w, nil
}

func sysfsNumber(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 0, 63)
}

// bootID returns a number of the running kernel, or 0.
func bootID() uint64 {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	if len(digits) != 32 {
		return 0
	}
	high, err1 := strconv.ParseUint(digits[:16], 16, 64)
	low, err2 := strconv.ParseUint(digits[16:], 16, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return high ^ low
}
