package control

import (
	"os"

	"github.com/nicless/nicless/internal/shm"
)

// Reply holds the memory and files that belong to an answer. Between processes they are sent
// as descriptors; within a process the Reply is passed as it is. The receiver closes the
// files.
type Reply struct {
	UAR    *shm.Region // with a Welcome: pages that the client writes
	Status *shm.Region // with a Welcome: the page that the device writes
	Events *os.File    // with a Channel: yields one record for each event
	Wake   *os.File    // with a Wake: a write to it wakes the device
	Rings  *os.File    // with Rings: memory to map for reading
	Memory *os.File    // with a new region; the device closes it, so it is sent before the next request
}
