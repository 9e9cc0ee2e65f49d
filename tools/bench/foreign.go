//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/shm"
)

// A foreign poster writes the bytes that the formats require, without using nicless to post.
// It does not know that the device can sleep, so it does not wake the device.
type foreign struct {
	raw  nicless.Raw
	mr   *nicless.MR
	sent uint32
}

func newForeign(c *nicless.Context) (*foreign, error) {
	pd, err := c.AllocPD()
	if err != nil {
		return nil, err
	}
	f := &foreign{}
	f.mr, err = pd.RegisterMemory(16, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	cq, err := c.CreateCQ(nicless.CQConfig{Entries: 64, PollOnly: true})
	if err != nil {
		return nil, err
	}
	qp, _, err := connected(pd, nicless.QPConfig{SendCQ: cq})
	if err != nil {
		return nil, err
	}
	f.raw, err = qp.Raw()
	return f, err
}

// write posts a signaled WRITE of 8 bytes and waits for its completion.
func (f *foreign) write(ctx context.Context) error {
	payload := f.mr.Bytes()
	binary.NativeEndian.PutUint64(payload, uint64(f.sent)+1)

	be := binary.BigEndian
	ring := f.raw.Send
	w := ring[int(f.sent)*64%len(ring):][:64]
	be.PutUint32(w[0:], f.sent&0xffff<<8|0x08) // RDMA WRITE
	be.PutUint32(w[4:], f.raw.QPN<<8|3)        // ds is 3: three units of 16 bytes
	be.PutUint32(w[8:], 0x08)                  // signaled
	be.PutUint32(w[12:], 0)
	be.PutUint64(w[16:], f.mr.Addr()+8)
	be.PutUint32(w[24:], f.mr.RKey())
	be.PutUint32(w[28:], 0)
	be.PutUint32(w[32:], 8)
	be.PutUint32(w[36:], f.mr.LKey())
	be.PutUint64(w[40:], f.mr.Addr())
	shm.BE32At(f.raw.Record, 4).Publish((f.sent + 1) & 0xffff)
	shm.BE64At(f.raw.Register, 0).Publish(be.Uint64(w))

	if err := f.complete(ctx); err != nil {
		return err
	}
	if got := binary.NativeEndian.Uint64(payload[8:]); got != uint64(f.sent) {
		return fmt.Errorf("bench: %d arrived; %d was written", got, f.sent)
	}
	return nil
}

// complete waits for the completion of the write that was posted last.
func (f *foreign) complete(ctx context.Context) error {
	cq := f.raw.SendCQ.Ring
	entries := len(cq) / 64
	e := shm.BlockAt(cq, uint64(f.sent)%uint64(entries)*64)
	lap := byte(f.sent >> bits.TrailingZeros(uint(entries)) & 1)
	for polls := 1; ; polls++ {
		own := byte(e.ObserveTail())
		switch {
		case own>>4 == 0xf || own&1 != lap: // the entry was not written yet in this lap
		case own>>4 == 0:
			f.sent++
			shm.BE32At(f.raw.SendCQ.Record, 0).Publish(f.sent & 0xffffff)
			return nil
		default:
			return fmt.Errorf("bench: a completion of kind %#x; expected %#x", own>>4, 0)
		}
		if polls%(1<<20) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
