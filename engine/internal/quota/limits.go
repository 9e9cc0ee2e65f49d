//go:build linux && (amd64 || arm64)

package quota

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/nicless/nicless/engine/internal/cgroup"
	"golang.org/x/sys/unix"
)

const (
	// maxConnections stays well below 10,000, the number of threads at which a Go program ends.
	maxConnections = 1 << 12

	// maxAddressSpace leaves half of the 128 TiB of a process to the device, because a Go program
	// that cannot map more heap ends.
	maxAddressSpace = 64 << 40

	// maxMemory bounds the device's own memory for objects of clients. It also keeps numbers from
	// running short: with what each object costs, at most an eighth of the indices of keys, or of
	// the numbers of queues, can be in use.
	maxMemory = 1 << 30

	// maxPaths is three quarters of the 4096 paths that a RoCE port has (tableSize in fabric/roce). The rest
	// is for paths that no queue pair holds: paths of datagrams, and paths to hosts that have sent something.
	maxPaths = 3 << 10
)

// systemLimits returns the limits of this process, without the part that is kept for the
// device itself, and what each limit comes from.
func systemLimits(root fs.FS) (limits Charge, source [numResources]string) {
	maps := maxMappings()
	limits[Mappings] = maps / 4 * 3
	source[Mappings] = fmt.Sprintf("vm.max_map_count is %d", maps)
	files := Rlimit(unix.RLIMIT_NOFILE, 1<<20)
	limits[Descriptors] = files / 4 * 3
	source[Descriptors] = fmt.Sprintf("ulimit -n, RLIMIT_NOFILE, is %d", files)
	limits[AddressSpace] = maxAddressSpace
	source[AddressSpace] = "a process has 128 TiB, of which clients get 64"
	if space := Rlimit(unix.RLIMIT_AS, 2*maxAddressSpace); space < 2*maxAddressSpace {
		limits[AddressSpace] = space / 2
		source[AddressSpace] = fmt.Sprintf("ulimit -v, RLIMIT_AS, is %d bytes", space)
	}
	limits[RegionBytes], source[RegionBytes] = maxRegionBytes(root)
	limits[Connections] = maxConnections
	source[Connections] = fmt.Sprintf("a device serves %d", maxConnections)
	limits[Memory] = maxMemory
	source[Memory] = fmt.Sprintf("a device spends %d on clients", maxMemory)
	limits[Unread] = limits[Descriptors]
	source[Unread] = source[Descriptors]
	limits[PipePages], source[PipePages] = maxPipePages()
	machine, said := MostRegion()
	limits[HeldBytes], source[HeldBytes] = machine/heldPart, said+fmt.Sprintf(", of which 1/%d may be held", heldPart)
	limits[Paths], source[Paths] = maxPaths, fmt.Sprintf("a device holds %d for clients", maxPaths)
	return limits, source
}

// Rlimit returns a resource limit of this process, such as RLIMIT_NOFILE. If the limit is
// greater than the argument most, Rlimit returns the value of most.
func Rlimit(what, most int) int {
	var r unix.Rlimit
	if err := unix.Getrlimit(what, &r); err != nil {
		return most / 1024
	}
	return int(min(r.Cur, uint64(most)))
}

// maxMappings returns how many mappings the kernel allows a process.
func maxMappings() int {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
			return n
		}
	}
	return 65530 // the kernel's default
}

// maxRegionBytes returns how many bytes all regions together may have. If regions held more
// than the system's memory, the kernel would kill a process. The kernel prefers to kill a
// process that has mapped much memory, such as the device's.
func maxRegionBytes(root fs.FS) (limit int, source string) {
	least, source := math.Inf(1), "the system does not say how much memory it has"
	text, _ := fs.ReadFile(root, "proc/meminfo")
	if f := strings.Fields(string(text)); len(f) > 1 && f[0] == "MemTotal:" {
		if kilobytes, err := strconv.Atoi(f[1]); err == nil {
			least, source = float64(kilobytes)*1024, fmt.Sprintf("the system has %s kB of memory", f[1])
		}
	}
	if group := cgroup.MemoryLimit(root); group < least {
		least, source = group, fmt.Sprintf("the memory of the device's control group is limited to %.0f bytes", group)
	}
	return int(min(least, maxAddressSpace)) / 4 * 3, source
}

// heldPart is the part of the machine's memory that may be taken by holding pages of regions. With half
// of it a user can have regions of eight times the machine's memory, which a program that reserves
// address space for later does not reach.
const heldPart = 16

// MostRegion returns how many bytes one region can have, and why: as many as the machine has of memory and
// swap. A larger region could never be filled, but would cost memory all the same: see HeldBytes. The
// kernel is asked each time, in one system call, because swap comes and goes.
func MostRegion() (bytes int, source string) {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		s = unix.Sysinfo_t{}
	}
	return machineMemory(&s)
}

// machineMemory returns how many bytes of memory and swap the machine has, at most maxAddressSpace.
// Control groups are left out: a limit there can be raised while the device runs.
func machineMemory(s *unix.Sysinfo_t) (bytes int, source string) {
	if s.Totalram == 0 {
		return maxAddressSpace, "the system does not say how much memory it has"
	}
	kilobytes := func(units uint64) uint64 {
		over, n := bits.Mul64(units, uint64(s.Unit))
		if over != 0 {
			n = math.MaxUint64
		}
		return n >> 10
	}
	memory, swap := kilobytes(s.Totalram), kilobytes(s.Totalswap)
	return int(min(memory+swap, maxAddressSpace>>10)) << 10,
		fmt.Sprintf("the system has %d kB of memory and %d kB of swap", memory, swap)
}

// maxPipePages returns how many pages of pipes the device may have because of its clients. The
// kernel limits these pages for the device's own user, in all its processes together. A
// process that has the right to exceed this limit has no limit.
func maxPipePages() (limit int, source string) {
	const unlimited = 1 << 30
	b, err := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft")
	n, err2 := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || err2 != nil || n == 0 || mayExceed() {
		return unlimited, "a device uses no more"
	}
	return n / 4 * 3, fmt.Sprintf("fs.pipe-user-pages-soft is %d", n)
}

// mayExceed reports whether the process has CAP_SYS_RESOURCE or CAP_SYS_ADMIN.
func mayExceed() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil &&
		d[0].Effective&(1<<unix.CAP_SYS_RESOURCE|1<<unix.CAP_SYS_ADMIN) != 0
}
