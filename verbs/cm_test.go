package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openCM opens a channel of rdma_cm.
func (r *rig) openCM() (inode uint64, fd *os.File) {
	r.Helper()
	h, body, files := r.request(opOpenChannel, 0, nil)
	require.Zero(r, h.error)
	require.Len(r, files, 1)
	require.Equal(r, uint32(cmMajor), le.Uint32(body[8:]))
	return le.Uint64(body), files[0]
}

// writeRequest returns an nv_write and what follows it.
func writeRequest(written []byte, results ...[]byte) []byte {
	b := le.AppendUint64(nil, uint64(len(written)))
	b = append(b, u32s(uint32(len(written)), uint32(len(results)))...)
	b = append(b, written...)
	b = append(b, make([]byte, padded(len(written))-len(written))...)
	for _, r := range results {
		b = append(b, r...)
	}
	return b
}

func createIDCommand() []byte {
	b := make([]byte, abi.CMHdrSize+abi.CMCreateIDSize)
	le.PutUint16(b[abi.CMHdrIn:], abi.CMCreateIDSize)
	le.PutUint16(b[abi.CMHdrOut:], abi.CMCreateIDRespSize)
	req := b[abi.CMHdrSize:]
	le.PutUint64(req[abi.CMCreateIDUID:], 7)
	le.PutUint64(req[abi.CMCreateIDResponse:], 0x1000)
	le.PutUint16(req[abi.CMCreateIDPS:], abi.CMPSTCP)
	return b
}

func (s *Server) openChannels() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels)
}

// A channel lives as long as any process has its descriptor; another process can use it.
func TestCMChannel(t *testing.T) {
	s := newServing(t)
	a, b := s.rig(t), s.rig(t)
	inode, fd := a.openCM()
	h, body, _ := a.request(opWrite, inode, writeRequest(createIDCommand()))
	require.Zero(t, h.error)
	require.Equal(t, uint64(1), le.Uint64(body))
	require.Equal(t, uint64(0x1000), le.Uint64(body[16:]), "where the response goes")

	h, _, _ = b.request(opWrite, inode, writeRequest(createIDCommand()))
	require.Equal(t, int32(unix.EBADF), h.error, "it has not shown the descriptor")
	theirs := duplicated(b, []*os.File{fd})[0]
	h, body, _ = b.request(opAdopt, 0, nil, theirs)
	require.Zero(t, h.error)
	require.Equal(t, inode, le.Uint64(body))
	h, _, _ = b.request(opWrite, inode, writeRequest(createIDCommand()))
	require.Zero(t, h.error)

	other, end, err := os.Pipe()
	require.NoError(t, err)
	h, _, _ = b.request(opAdopt, 0, nil, other)
	require.Equal(t, int32(unix.ENOTTY), h.error, "some other pipe")
	_ = closeFiles(other, end)

	_ = fd.Close()
	h, _, _ = b.request(opWrite, inode, writeRequest(createIDCommand()))
	require.Zero(t, h.error)
	_ = theirs.Close()
	await.Until(t, "the channel is closed", func() bool { return s.openChannels() == 0 && s.manager.Leftovers() == 0 })
	h, _, _ = b.request(opWrite, inode, writeRequest(createIDCommand()))
	require.Equal(t, int32(unix.EBADF), h.error)
}

// The descriptor has a byte for each event, and loses bytes with their events.
func TestCMTokens(t *testing.T) {
	s := newServing(t)
	r := s.rig(t)
	inode, fd := r.openCM()
	defer fd.Close()
	s.mu.Lock()
	ch := s.channels[inode]
	s.mu.Unlock()
	pending := func() int {
		ch.bytes.mu.Lock()
		done := ch.bytes.done
		ch.bytes.mu.Unlock()
		if done != nil { // the machine is slow
			<-done
		}
		n, err := unix.IoctlGetInt(int(fd.Fd()), unix.TIOCINQ)
		require.NoError(t, err)
		return n
	}
	for range 5000 {
		ch.Put()
	}
	require.Equal(t, 5000, pending())
	ch.Take(4999)
	require.Equal(t, 1, pending())
	ch.Take(10)
	require.Zero(t, pending())
	for range 20000 { // the pipe is full: the server does not wait
		ch.Put()
	}
	require.False(t, ch.Gone())
	ch.Take(20000)
	_ = fd.Close()
	await.Until(t, "the channel is gone", ch.Gone)
	ch.Put()
	ch.Take(1)
}

// At the end of the server, programs have time to read that the device goes.
func TestCMFarewell(t *testing.T) {
	s := newServing(t)
	r := s.rig(t)
	_, fd := r.openCM()
	defer fd.Close()
	s.farewell() // it does not wait: no program has anything to read, as is checked below
	h, _, _ := r.request(opOpenChannel, 0, nil)
	require.Equal(t, int32(unix.EIO), h.error)
	require.Zero(t, s.manager.Unread())
}

// Datagrams of NV_WRITE that no shim sends end the connection.
func TestParseWrite(t *testing.T) {
	good := writeRequest(make([]byte, 9), append(make([]byte, gotSize), 1, 2, 3, 4, 5, 6, 7, 8))
	le.PutUint32(good[writeSize+16+8:], 5)
	written, results, err := parseWrite(good)
	require.NoError(t, err)
	require.Len(t, written, 9)
	require.Equal(t, []byte{1, 2, 3, 4, 5}, results[0].bytes)
	for n := range len(good) {
		_, _, err := parseWrite(good[:n])
		require.ErrorIs(t, err, errWire, "%d bytes", n)
	}
	_, _, err = parseWrite(writeRequest(make([]byte, cm.MaxWrite+1)))
	require.ErrorIs(t, err, errWire)
	long := writeRequest(nil, make([]byte, gotSize))
	le.PutUint32(long[writeSize+8:], ^uint32(0))
	_, _, err = parseWrite(long)
	require.ErrorIs(t, err, errWire)
}
