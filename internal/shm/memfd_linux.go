package shm

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// Seals. Without those of fixedSize the other side could truncate the memory, and a reader
// would get SIGBUS. Without those of noHoles the other side could remove single pages, with
// fallocate or madvise. A thread that touches such a page meanwhile waits in the kernel until
// the removal has ended. The other side can make that arbitrarily long, and no signal ends the
// wait. FUTURE_WRITE forbids the removal of pages and every later mapping for writing.
const (
	fixedSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	noHoles   = unix.F_SEAL_FUTURE_WRITE
)

// Create makes a region of fixed size. It has at least as many bytes as size says, and all of
// them are zero. Its File can be passed to another process. name is shown in /proc/PID/maps. Most pages are
// allocated when they are first touched. One page of every 2 MiB is allocated at once; HoldCost returns the
// cost of that. When both sides have mapped the region, one of them must call Seal.
func Create(name string, size int) (*Region, error) {
	return create(name, size, fixedSize)
}

// CreateSealed is Create for memory that only this process maps for writing: the region
// is writable here, but a process that receives its File can map it for reading only.
func CreateSealed(name string, size int) (*Region, error) {
	return create(name, size, fixedSize|noHoles|unix.F_SEAL_SEAL)
}

// CreateForReaders is CreateSealed for memory whose pages this process wants back while others still map it
// (see Discard). Other processes get what OpenReadOnly returns, never the File. Processes of this process's
// user, or of root, could open the memory for writing nevertheless, and keep a thread waiting that uses it.
func CreateForReaders(name string, size int) (*Region, error) {
	r, err := create(name, size, fixedSize|unix.F_SEAL_SEAL)
	if err != nil {
		return nil, err
	}
	if err := r.file.Chmod(0o400); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: %s: %w", r.file.Name(), err), r.Close())
	}
	return r, nil
}

// OpenReadOnly returns a file by which another process can map the region for reading only.
func (r *Region) OpenReadOnly() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", r.file.Fd()))
}

// Discard gives the pages of the region back to the system. Each process that maps the region finds zeros
// from then on.
func (r *Region) Discard() error {
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	return unix.Fallocate(int(r.file.Fd()), hole, 0, int64(len(r.mem)))
}

// CreateSparse is Create for memory whose mapping another process may enlarge (mremap): the
// file has room for that behind the region's bytes, and no pages there. If the process's limit
// on the size of files forbids such a file, the file has no room.
func CreateSparse(name string, size int) (*Region, error) {
	if uint64(size) > MaxRegion {
		return Create(name, size) // returns the error
	}
	r, err := createIn(name, size, sparse, fixedSize)
	if errors.Is(err, unix.EFBIG) {
		return Create(name, size)
	}
	return r, err
}

// sparse is the size of the files of CreateSparse, in bytes.
const sparse = 2 * MaxRegion

// Seal forbids all processes to punch holes into the region, and to map it for writing from
// now on. Existing mappings do not change. The side that maps the region last must call Seal.
// If another process is punching a hole, Seal waits in the kernel until that has ended, which
// can take for ever.
func (r *Region) Seal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sealed || r.file == nil {
		return nil
	}
	if _, err := unix.FcntlInt(r.file.Fd(), unix.F_ADD_SEALS, noHoles|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("shm: seal %s: %w", r.file.Name(), err)
	}
	r.sealed = true
	return nil
}

// Sealed reports whether a process has called Seal for this memory. It never waits. Heap
// memory counts as sealed.
func (r *Region) Sealed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || r.sealed {
		return r.maps == nil || r.sealed
	}
	const all = fixedSize | noHoles
	seals, err := unix.FcntlInt(r.file.Fd(), unix.F_GET_SEALS, 0)
	r.sealed = err == nil && seals&all == all
	return r.sealed
}

// MapAgain maps the memory at other addresses, too, and returns that as a region, which has no File. The
// caller seals r afterwards: memory that is sealed cannot be mapped again.
func (r *Region) MapAgain() (*Region, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil, ErrClosed
	}
	m, err := mmap.MapRegion(r.file, len(r.mem), mmap.RDWR, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes of %s again: %w", len(r.mem), r.file.Name(), err)
	}
	return &Region{mem: m[:len(m):len(m)], maps: m, sealed: true}, nil
}

func create(name string, size, seals int) (*Region, error) { return createIn(name, size, 0, seals) }

// createIn makes a region at the start of a file of room bytes, or of the region's size if that
// is more.
func createIn(name string, size int, room int64, seals int) (*Region, error) {
	size, err := roundUp(size)
	if err != nil {
		return nil, err
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Hardened systems (vm.memfd_noexec = 2) require memory that cannot be executed.
	// Kernels before 6.3 do not have the flag.
	fd, err := unix.MemfdCreate("nicless:"+name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("nicless:"+name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("shm: memfd_create %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), "nicless:"+name)
	if err := unix.Ftruncate(fd, max(int64(size), room)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("shm: %s of %d bytes: %w", name, size, err)
	}
	r, err := mapped(f, size, mmap.RDWR)
	if err != nil {
		return nil, err
	}
	// A process that maps the memory can ask for huge pages, also if it maps it for reading only.
	if err := r.held.take(r.mem); err != nil {
		_ = r.Close()
		return nil, err
	}
	// Seal after mapping: FUTURE_WRITE forbids every later mapping for writing.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("shm: seal %s: %w", name, err)
	}
	r.sealed = seals&noHoles != 0
	return r, nil
}

// Attach maps memory that another process made. It takes ownership of f, even if it returns an
// error. It refuses a file whose size could change while it is mapped. If trusted is true, it
// accepts such a file, because the caller knows that the file (on a DAX file system, in a CXL
// pool) keeps its size and its pages.
func Attach(f *os.File, trusted bool) (*Region, error) {
	size, _, err := check(int(f.Fd()), trusted)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r, err := mapped(f, size, mmap.RDWR)
	if err == nil {
		r.sealed = trusted
	}
	return r, err
}

// AttachPart maps size bytes of a file that another process made, from offset on. Both are
// multiples of PageSize. The file remains the caller's, who knows that it keeps its size, and
// accepts that its pages may go: a thread that touches the region may then have to wait.
func AttachPart(f syscall.Conn, offset int64, size int) (*Region, error) {
	if size < 1 || uint64(size) > MaxRegion {
		return nil, fmt.Errorf("shm: region of %d bytes; 1 to %d are possible", size, uint64(MaxRegion))
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var m []byte
	if closed := raw.Control(func(fd uintptr) {
		m, err = unix.Mmap(int(fd), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}); closed != nil || err != nil {
		return nil, errors.Join(closed, err)
	}
	return &Region{mem: m[:size:size], maps: m, sealed: true}, nil
}

// AttachReadOnly is Attach for memory that this process only reads.
func AttachReadOnly(f *os.File) (*Region, error) {
	size, _, err := check(int(f.Fd()), false)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return mapped(f, size, mmap.RDONLY)
}

// check returns the size of the memory behind a descriptor and the size of its pages. It
// returns an error if the memory must not be mapped.
func check(fd int, trusted bool) (size, page int, err error) {
	if !trusted {
		// The seals are checked first, because reading the seals does not ask a file system, which
		// might never answer.
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil {
			return 0, 0, fmt.Errorf("shm: descriptor is not a memfd: %w", err)
		}
		if seals&fixedSize != fixedSize {
			return 0, 0, fmt.Errorf("shm: region is not sealed against shrinking and growing (seals %#x, needed %#x)", seals, fixedSize)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, fmt.Errorf("shm: descriptor %d: %w", fd, err)
	}
	if st.Size < 1 || st.Size > MaxRegion || st.Size%PageSize != 0 {
		return 0, 0, fmt.Errorf("shm: region of %d bytes; a multiple of %d up to %d is possible", st.Size, PageSize, uint64(MaxRegion))
	}
	return int(st.Size), int(st.Blksize), nil
}

// A mapping is memory that is mapped.
type mapping = mmap.MMap

// mapped maps f as a region and takes ownership of f.
func mapped(f *os.File, size, prot int) (*Region, error) {
	m, err := mmap.MapRegion(f, size, prot, 0, 0)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("shm: map %d bytes of %s: %w", size, f.Name(), err)
	}
	return &Region{mem: m[:size:size], file: f, maps: m}, nil
}

// CloseFile closes the descriptor but keeps the mapping. A server of many clients calls it, so
// that it does not run out of descriptors.
func (r *Region) CloseFile() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
