//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// Offsets in the shared memory; carrier/carrier.h has the same. Each word has one writer.
const (
	asleepAt       = 0  // 4 bytes: number of the process's sleep; 0: it is awake
	engineAsleepAt = 64 // 4 bytes: number of the engine's sleep; 0: it is awake
	ringsAt        = 4096
)

// A memory is what the engine and the process share: two rings, two words, and two eventfds.
type memory struct {
	region       *shm.Region
	toProcess    *packetring.Producer
	fromProcess  *packetring.Consumer
	asleep       *shm.BE32
	engineAsleep *shm.BE32

	wakeFD int      // eventfd that the process waits for
	bellFD int      // eventfd that awaitBell waits for
	bell   *os.File // bellFD as a file

	// Only the engine's thread uses these.
	answered uint32        // number of the process's sleep that the engine has ended last
	sleeps   uint32        // number of the engine's last sleep
	barrier  atomic.Uint32 // for its Add, which is a full barrier
}

func newMemory(g packetring.Geometry) (*memory, error) {
	second := ringsAt + (g.Size()+ringsAt-1)&^(ringsAt-1)
	region, err := shm.Create("nicless:ucx", second+g.Size())
	if err != nil {
		return nil, err
	}
	m := &memory{region: region, wakeFD: -1, bellFD: -1}
	b := region.Bytes()
	m.asleep, m.engineAsleep = shm.BE32At(b, asleepAt), shm.BE32At(b, engineAsleepAt)
	m.toProcess, err = packetring.NewProducer(b[ringsAt:], g, nil)
	if err == nil {
		m.fromProcess, err = packetring.NewConsumer(b[second:], g, nil)
	}
	if err == nil {
		m.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		m.bellFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("ucx: shared memory: %w", err)
	}
	m.bell = os.NewFile(uintptr(m.bellFD), "nicless:ucx bell")
	return m, nil
}

// reset begins the rings anew. The engine does not use them at the moment, and there is no process.
func (m *memory) reset() {
	m.toProcess.Reset(0)
	m.fromProcess.Reset(0)
}

// one is the number 1, as an eventfd wants it.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// wake wakes the process if it sleeps. The engine's thread calls it after it has published
// packets. There is one system call for each sleep.
//
// Observe: asleep, published by the process (set_asleep in carrier/main.c).
func (m *memory) wake() {
	m.barrier.Add(1) // between storing the packets and loading asleep
	sleep := m.asleep.Observe()
	if sleep == 0 || sleep == m.answered {
		return
	}
	m.answered = sleep
	_, _ = unix.Write(m.wakeFD, one)
}

// setAsleep is PortConfig.Asleep: the engine's thread calls it.
//
// Publish: number of the engine's sleep. The process loads it (bell in carrier/main.c).
func (m *memory) setAsleep(asleep bool) {
	if !asleep {
		m.engineAsleep.Publish(0)
		return
	}
	m.sleeps = max(1, m.sleeps+1) // never 0
	m.engineAsleep.Publish(m.sleeps)
}

// awaitBell notifies the device when the process has put packets into its ring while it slept. It returns
// when the memory is closed.
func (m *memory) awaitBell(port nic.Port) {
	var b [8]byte
	for {
		if _, err := m.bell.Read(b[:]); err != nil {
			return
		}
		port.Arrived()
	}
}

// close closes the eventfds and unmaps the memory, which nobody uses any more.
func (m *memory) close() {
	if m.bell != nil {
		_ = m.bell.Close()
	} else if m.bellFD >= 0 {
		_ = unix.Close(m.bellFD)
	}
	if m.wakeFD >= 0 {
		_ = unix.Close(m.wakeFD)
	}
	_ = m.region.Close()
}
