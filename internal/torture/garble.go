package torture

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// highestOp is past the operations that the protocol has.
const highestOp = 30

// garble sends requests that make no sense: random ones, such with lengths that
// do not fit, and such that name what there is not. The engine answers, or hangs
// up; it does not fall silent.
func (v *villain) garble() error {
	c, err := dialRaw(v.spec.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	if v.r.IntN(4) > 0 {
		if err := c.hello(); err != nil {
			return err
		}
	}
	// Something that random numbers can hit.
	mem, err := shm.Create("garble", 1<<20)
	if err != nil {
		return err
	}
	defer mem.Close()
	if err := c.share(mem); err != nil && !refused(err) {
		return err
	}
	for range 50 + v.r.IntN(200) {
		if err := v.garbled(c, mem); err != nil {
			return err
		}
		v.tell(1)
		if v.r.IntN(16) == 0 {
			v.pause(2 * time.Millisecond)
		}
	}
	return nil
}

// garbled sends one request and waits for its answer.
func (v *villain) garbled(c *raw, mem *shm.Region) error {
	payload := make([]byte, 8*v.r.IntN(9))
	v.fill(payload)
	op := control.Op(v.r.IntN(highestOp))
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	var fds []int
	switch v.r.IntN(8) {
	case 0: // a wrong descriptor, or several
		for range 1 + v.r.IntN(30)/28 {
			if f, err := wrongFile(v.r); err == nil {
				files, fds = append(files, f), append(fds, int(f.Fd()))
			}
		}
		op = control.OpAddRegion
		payload = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, mem.Addr()+1<<20), 1<<20)
	case 1: // memory, overlapping or too long
		fds = append(fds, int(mem.File().Fd()))
		op = control.OpAddRegion
		payload = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, mem.Addr()+uint64(v.r.IntN(4)<<12)), v.r.Uint64()>>v.r.IntN(64))
	case 2, 3, 4: // small numbers, which are more often somebody's, and addresses that are ours
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
	if err := c.send(b, fds...); err != nil {
		return err
	}
	_, _, err := c.receive()
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
	return err
}

// waitFor waits for completions no longer than anything may take.
func waitFor(cq *nicless.CQ, list []nicless.Completion) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hangTime)
	defer cancel()
	return cq.Wait(ctx, list)
}
