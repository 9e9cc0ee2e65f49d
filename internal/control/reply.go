package control

import (
	"os"

	"github.com/nicless/nicless/internal/shm"
)

// Reply travels beside an answer: as descriptors between processes, as it is within
// a process. The receiver closes the files.
type Reply struct {
	UAR    *shm.Region // of a Welcome: pages that the client writes
	Status *shm.Region // of a Welcome: the page that the device writes
	Events *os.File    // of a Channel: yields a record per event
	Wake   *os.File    // of a Wake: written to, it wakes the device
	Memory *os.File    // of a new region; it stays the device's, to be sent before the next request
}
