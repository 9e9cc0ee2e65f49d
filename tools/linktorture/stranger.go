//go:build linux && (amd64 || arm64)

package linktorture

import (
	"net"
	"time"
)

// stranger connects to the UCX port and sends 0xff, zeros or noise, or nothing. If there is no UCX, it
// tries the RoCE port over TCP, where no server listens.
func (h *hostile) stranger() error {
	to := h.s.UCX
	if to == "" {
		to = port(h.s.Victims[0].Address).String()
	}
	time.Sleep(10 * time.Millisecond)
	h.count.Hostile++
	c, err := net.DialTimeout("tcp", to, time.Second)
	if err != nil {
		return nil // refused
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
	b := make([]byte, 1+h.r.IntN(256))
	for kind, i := h.r.IntN(3), 0; i < len(b); i++ {
		b[i] = [...]byte{0xff, 0, byte(h.r.Uint32())}[kind]
	}
	if h.r.IntN(4) > 0 {
		_, _ = c.Write(b)
	}
	if h.r.IntN(2) == 0 {
		_, _ = c.Read(b)
	}
	return nil
}
