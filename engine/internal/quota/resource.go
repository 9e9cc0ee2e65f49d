//go:build linux && (amd64 || arm64)

package quota

// A Resource is something of which the process can have a limited number.
type Resource int

// These are the resources.
const (
	Mappings     Resource = iota // memory mappings, vm.max_map_count
	Descriptors                  // file descriptors, RLIMIT_NOFILE
	AddressSpace                 // bytes of address space that are mapped
	RegionBytes                  // bytes of regions; all count as memory in use: clients can fill them
	Connections                  // connections; each may occupy a thread while memory is unmapped
	Memory                       // bytes of the device's own memory
	Unread                       // descriptors in answers that have not been read
	PipePages                    // pages of pipes that hold pages of regions, see shm.HoldCost
	HeldBytes                    // bytes of memory that holding pages of regions takes, see shm.HoldBytes
	Paths                        // paths to ports elsewhere that objects hold
	numResources
)

// names are the names of the resources in the text of a refusal, where they follow a number.
var names = [numResources]string{"mappings", "descriptors", "bytes of address space", "bytes of regions",
	"connections", "bytes of memory", "descriptors in unread answers", "pages of pipes", "bytes of memory for pages that are held", "paths"}

// A Charge is an amount of each resource.
type Charge [numResources]int

// Plus returns the sum of both charges.
func (c Charge) Plus(d Charge) Charge {
	for r := range c {
		c[r] += d[r]
	}
	return c
}

// Minus returns c less d.
func (c Charge) Minus(d Charge) Charge {
	for r := range c {
		c[r] -= d[r]
	}
	return c
}
