//go:build linux && (amd64 || arm64)

package torture

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/nicless/nicless/internal/shm"
)

// takeResources returns the resources of this process.
func takeResources() (h Resources) {
	runtime.GC()
	debug.FreeOSMemory() // frees the objects that the first collection finalized, and returns free memory
	h.Goroutines = runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.Heap = m.HeapAlloc
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.Descriptors = len(list)
	}
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.Mappings = bytes.Count(b, []byte("/memfd:"))
	}
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseUint(f[1], 10, 64)
			h.Resident = pages * uint64(os.Getpagesize())
		}
	}
	return h
}

// How much more memory than at the start a process may have. Some growth is not a leak, because a
// run leaves memory in the tables of maps and in the allocator's caches.
const (
	heapSlack     = 4 << 20
	residentSlack = 64 << 20
)

// leaked describes the resources that h has in excess of before. It returns "" if there are none.
func (h Resources) leaked(before Resources) string {
	var more []string
	add := func(what string, now, then, slack uint64) {
		if now > then+slack {
			more = append(more, fmt.Sprintf("%d %s (%d before)", now, what, then))
		}
	}
	add("descriptors", uint64(h.Descriptors), uint64(before.Descriptors), 0)
	add("mappings of shared memory", uint64(h.Mappings), uint64(before.Mappings), 0)
	add("goroutines", uint64(h.Goroutines), uint64(before.Goroutines), 0)
	add("bytes of heap", h.Heap, before.Heap, heapSlack)
	if !shm.RaceEnabled { // whose shadow of all memory that was ever used stays resident
		add("bytes resident", h.Resident, before.Resident, residentSlack)
	}
	return strings.Join(more, ", ")
}
