//go:build linux && (amd64 || arm64)

package netdev

import (
	"github.com/nicless/nicless"
)

// Numbers of buffers. A buffer holds a message with the longest packet.
const (
	sendBuffers    = 64
	receiveBuffers = 128
	bufferSize     = (messageSize + MaxPacket + line - 1) &^ (line - 1)
)

// buffers are pieces of registered memory for messages.
type buffers struct {
	mr *nicless.MR
}

func newBuffers(pd *nicless.PD, n int) (buffers, error) {
	mr, err := pd.RegisterMemory(n*bufferSize, nicless.LocalWrite)
	return buffers{mr}, err
}

// at returns the bytes of a buffer.
func (b buffers) at(n int) []byte { return b.mr.Bytes()[n*bufferSize:][:bufferSize] }

func (b buffers) sge(n, length int) nicless.SGE { return b.mr.SGE(n*bufferSize, length) }

// A freeList has the numbers of free buffers. Any goroutine may put one back, or take one.
type freeList chan uint16

func newFreeList(n int) freeList {
	f := make(freeList, n)
	for i := range n {
		f <- uint16(i)
	}
	return f
}
