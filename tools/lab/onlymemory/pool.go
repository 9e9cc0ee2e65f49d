//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edsrzf/mmap-go"
)

// A filePart is a part of a file. A length of 0 means the rest of the file.
type filePart struct {
	path           string
	offset, length int64
}

// mapPool maps the memory.
func mapPool(p filePart) (mmap.MMap, error) {
	if p.path == "ivshmem" {
		var err error
		p.path, err = findIvshmem("/sys/bus/pci/devices")
		if err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(p.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	if p.length == 0 {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		p.length = st.Size() - p.offset
	}
	if p.length < boardSize {
		return nil, fmt.Errorf("%s has %d bytes; more than %d are needed (-length, for a device without a size)", p.path, p.length, boardSize)
	}
	mem, err := mmap.MapRegion(f, int(p.length), mmap.RDWR, 0, p.offset)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s from %d on: %w", p.length, p.path, p.offset, err)
	}
	return mem, nil
}

// findIvshmem returns the file of the memory of the machine's ivshmem device, and enables the
// device, which has no driver in Linux that would do so.
func findIvshmem(devices string) (string, error) {
	all, err := filepath.Glob(filepath.Join(devices, "*"))
	if err != nil {
		return "", err
	}
	for _, dir := range all {
		is := func(file, want string) bool {
			b, err := os.ReadFile(filepath.Join(dir, file))
			return err == nil && strings.TrimSpace(string(b)) == want
		}
		if is("vendor", "0x1af4") && is("device", "0x1110") {
			return filepath.Join(dir, "resource2"), os.WriteFile(filepath.Join(dir, "enable"), []byte("1"), 0)
		}
	}
	return "", fmt.Errorf("none of the %d devices in %s is ivshmem (0x1af4, 0x1110)", len(all), devices)
}

// waitForEngine waits until a description is there whose engine runs.
func waitForEngine(ctx context.Context, b board, nap time.Duration) (id uint64, d description, err error) {
	first := b.Load(heartbeatAt)
	for {
		if id, d, err = b.get(); err == nil && b.Load(heartbeatAt) != first {
			return id, d, nil
		}
		if err == nil {
			err = fmt.Errorf("its engine %016x does not run", id)
		}
		select {
		case <-ctx.Done():
			return 0, d, fmt.Errorf("waited for an engine: %w (%w)", ctx.Err(), err)
		case <-time.After(max(nap, time.Millisecond)):
		}
	}
}
