//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// highestOp is larger than the number of every operation of the protocol.
const highestOp = control.OpQueryPort + 2

// fuzz sends requests that make no sense: random bytes, wrong lengths, names of objects that do
// not exist. The engine must answer each request or end the connection.
func (v *hostile) fuzz() error {
	c, err := v.dial()
	if err != nil {
		return err
	}
	defer c.close()
	if v.r.IntN(4) > 0 {
		if err := c.hello(); err != nil {
			return err
		}
	}
	// Memory that random addresses can hit.
	mem, _, err := c.region(1<<20, true)
	switch {
	case refused(err): // the engine refuses a request that comes before the Hello
		if mem, err = shm.Heap(1 << 20); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	defer mem.Close()
	for range 50 + v.r.IntN(200) {
		if err := v.fuzzOnce(c, mem); err != nil {
			return err
		}
		v.did(1)
		if v.r.IntN(16) == 0 {
			v.pause(2 * time.Millisecond)
		}
	}
	return nil
}

// fuzzOnce sends one request and waits for the answer.
func (v *hostile) fuzzOnce(c *raw, mem *shm.Region) error {
	payload := make([]byte, 8*v.r.IntN(9))
	v.fill(payload)
	op := control.Op(v.r.IntN(int(highestOp)))
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	var fds []int
	switch v.r.IntN(8) {
	case 0: // descriptors that no request takes
		for range v.r.IntN(32) / 28 { // seldom, because it ends the connection
			if f, err := wrongFile(v.r); err == nil {
				files, fds = append(files, f), append(fds, int(f.Fd()))
			}
		}
	case 1: // a region of any size, or an address for a region that may exist
		op = control.OpCreateRegion
		payload = binary.LittleEndian.AppendUint64(nil, v.r.Uint64()>>v.r.IntN(64))
		if v.r.IntN(2) == 0 {
			op = control.OpPlaceRegion
			payload = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil,
				uint64(v.r.IntN(4))), mem.Addr()+uint64(v.r.IntN(4)<<12))
		}
	case 5: // what others do, with the smallest rings
		op = control.OpWatch
		payload = control.Append(nil, op, 0, 0, &control.Watch{Bytes: 256 << 10, All: uint32(v.r.IntN(2)),
			QPN: uint32(v.r.IntN(2) * v.r.IntN(1<<24))})[control.HeaderSize:]
	case 2, 3, 4:
		// Small numbers, which are more often the number of an object, and addresses of this client's memory.
		for i := 0; i+8 <= len(payload); i += 8 {
			switch v.r.IntN(3) {
			case 0:
				binary.LittleEndian.PutUint32(payload[i:], uint32(v.r.IntN(4)))
				binary.LittleEndian.PutUint32(payload[i+4:], uint32(v.r.IntN(4)))
			case 1:
				binary.LittleEndian.PutUint64(payload[i:], mem.Addr()+uint64(v.r.IntN(1<<14)*64))
			}
		}
	}
	c.tag++
	b := make([]byte, control.HeaderSize, control.HeaderSize+len(payload))
	binary.LittleEndian.PutUint16(b, uint16(op))
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(b[8:], c.tag)
	b = append(b, payload...)
	switch v.r.IntN(150) {
	case 0:
		v.fill(b[:control.HeaderSize])
	case 1:
		b = b[:v.r.IntN(len(b))]
	case 2:
		b = append(b, make([]byte, v.r.IntN(1000))...)
	}
	err := c.send(b, fds...)
	switch {
	case len(fds) > 0 && errors.Is(err, unix.EPERM):
		return nil // the kernel has refused the descriptors
	case err != nil:
		return err
	}
	_, _, err = c.receive()
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
	return err
}

// waitFor waits for completions, at most for the time d, and returns how many came.
func waitFor(cq *nicless.CQ, list []nicless.Completion, d time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return cq.Wait(ctx, list)
}
