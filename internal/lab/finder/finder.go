//go:build linux && (amd64 || arm64)

// Package finder makes memory that a virtual machine shares with others usable, and says where it
// is. It needs no tools: everything is a few writes to files of sysfs.
//
//   - finder.go: Find, and what it returns
//   - system.go: reading and writing sysfs, and waiting for it
//   - ivshmem.go: memory behind a PCI device
//   - cxl.go: a CXL memory device: the region that the window shows
//   - volatile.go: such a region, made a DAX device
//   - persistent.go: the same for persistent memory, which has a namespace between
package finder

import "fmt"

// A Pool is memory that several machines can map.
type Pool struct {
	Path     string // path of the file or device to map
	Size     uint64 // bytes of it
	Offset   uint64 // offset of the memory in the file that QEMU was given
	Coherent bool   // all machines see each store; there are atomic operations
	What     string // description for people
}

// The kinds of memory that Find knows, as lab.pool= names them.
const (
	PCIe = "pcie"
	CXL  = "cxl"
)

// Find finds memory of a kind. The modules have been loaded.
func Find(kind string) (Pool, error) { return system{root: "/"}.find(kind) }

func (s system) find(kind string) (Pool, error) {
	switch kind {
	case PCIe:
		return s.ivshmem()
	case CXL:
		return s.cxl()
	}
	return Pool{}, fmt.Errorf("lab.pool=%s; %s and %s are possible", kind, PCIe, CXL)
}

// Link returns the option --link of an engine that is a node of the pool.
func (p Pool) Link(node int) string {
	link := fmt.Sprintf("pool:%s,node=%d", p.Path, node)
	if p.Coherent {
		return link + ",coherence=full"
	}
	return link + ",coherence=none"
}
