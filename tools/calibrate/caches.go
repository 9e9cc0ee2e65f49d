//go:build linux && (amd64 || arm64)

package calibrate

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nicless/nicless/internal/cpu"
)

// caches are the sizes in bytes of the caches of a core: the first one, the second one, and the
// largest one, which other cores may use too.
type caches struct{ first, second, last int }

// cachesOf returns the caches of a core, and typical sizes for those of which the kernel does not
// tell the size, as in some virtual machines.
func cachesOf(core int) caches {
	c := caches{first: 32 << 10, second: 1 << 20, last: cpu.CacheSize()}
	largest := 0
	folders, _ := filepath.Glob(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/index*", core))
	for _, folder := range folders {
		if kind := value(folder, "type"); kind != "Data" && kind != "Unified" {
			continue
		}
		size := bytesOf(value(folder, "size"))
		if size == 0 {
			continue
		}
		switch value(folder, "level") {
		case "1":
			c.first = size
		case "2":
			c.second = size
		}
		largest = max(largest, size)
	}
	if largest > 0 {
		c.last = largest
	}
	return c
}

func value(folder, file string) string {
	text, _ := os.ReadFile(filepath.Join(folder, file))
	return strings.TrimSpace(string(text))
}

// bytesOf returns the number that a size such as 48K or 32M stands for, or 0 if text is not a
// size.
func bytesOf(text string) int {
	shift := 0
	switch {
	case strings.HasSuffix(text, "K"):
		shift = 10
	case strings.HasSuffix(text, "M"):
		shift = 20
	case strings.HasSuffix(text, "G"):
		shift = 30
	}
	n, err := strconv.Atoi(strings.TrimRight(text, "KMG"))
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	return n << shift
}

// mostMemory is the largest working set, whatever the caches are.
const mostMemory = 128 << 20

// sets returns the sizes of working sets for loads from the first cache, the last cache and
// memory. All are powers of two. beyond is false if the last set is not at least twice as large
// as the last cache.
func (c caches) sets() (first, last, memory int, beyond bool) {
	first = floorPower(c.first / 2)
	last = max(floorPower(min(4*c.second, c.last/2)), 2*first)
	want := 1 << bits.Len(uint(2*c.last-1))
	memory = max(min(want, mostMemory), 2*last)
	return first, last, memory, memory >= 2*c.last
}

// floorPower returns the largest power of two that is not above n, and at least 4096.
func floorPower(n int) int { return 1 << (bits.Len(uint(max(n, 4096))) - 1) }
