//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/nicless/nicless/wqe"
)

// unknown is an opcode that no WQE has.
const unknown = wqe.Opcode(0x77)

// vandalise destroys the poster's queue pair. The engine answers the first request with an
// error, and then no longer looks at the queue pair, whatever is written there.
func (p *poster) vandalise() error {
	if err := p.drain(); err != nil {
		return err
	}
	var failed errFailed
	if err := p.do(unknown, 0, 0, 8); !errors.As(err, &failed) {
		return fmt.Errorf("a request with opcode %#x was not refused: %v", uint8(unknown), err)
	}
	random := rand.NewChaCha8([32]byte{byte(p.cfg.node)})
	for range p.cfg.n {
		for _, b := range [][]byte{p.raw.Send, p.raw.Recv, p.raw.Record, p.raw.Register, p.raw.SendCQ.Ring,
			p.raw.SendCQ.Record} {
			_, _ = random.Read(b)
		}
	}
	fmt.Printf("node %d: opcode %#x was refused (%v), then %d times random bytes in all its queues\n",
		p.cfg.node, uint8(unknown), failed.Status, p.cfg.n)
	return nil
}
