package verbs

import (
	"log/slog"
	"os"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/verbs/internal/mad"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A madRig is a program with an open file of management datagrams.
type madRig struct {
	*rig
	inode uint64
	fd    *os.File
}

func (r *rig) openMAD(device uint32) *madRig {
	r.Helper()
	h, body, files := r.request(opOpenMAD, 0, le.AppendUint64(nil, uint64(device)))
	require.Zero(r, h.error)
	require.Len(r, files, 1)
	require.Equal(r, []byte{231, 0, 0, 0, byte(device), 0, 0, 0}, body[8:])
	r.next++
	r.files[r.next] = files[0]
	m := &madRig{r, le.Uint64(body), files[0]}
	require.Zero(r, m.ioctl(mad.EnablePKey, nil))
	return m
}

func (m *madRig) call(op wireOp, count uint64, request uint32, arg []byte) (unix.Errno, []byte) {
	m.Helper()
	body := append(u64s(0x1000, count), u32s(request, 0)...)
	body = append(append(body, arg...), make([]byte, madArg-len(arg))...)
	h, b, _ := m.request(op, m.inode, body)
	if len(b) > 8+outSize {
		return unix.Errno(h.error), b[8+outSize:][:le.Uint32(b[8+4:])]
	}
	return unix.Errno(h.error), nil
}

func (m *madRig) ioctl(request uint32, arg []byte) unix.Errno {
	m.Helper()
	errno, _ := m.call(opMADIoctl, 0, request, arg)
	return errno
}

// registration returns a struct ib_user_mad_reg_req.
func registration(qpn, class, version, rmpp uint8, oui uint32, methods ...uint8) []byte {
	b := make([]byte, mad.RegisterSize)
	b[20], b[21], b[22], b[23], b[24], b[25], b[26] = qpn, class, version, byte(oui>>16), byte(oui>>8), byte(oui), rmpp
	for _, m := range methods {
		b[4+m/8] |= 1 << (m % 8)
	}
	return b
}

// write writes a datagram of an agent to a LID.
func (m *madRig) write(u mad.User, head mad.Header, data ...byte) unix.Errno {
	m.Helper()
	b := make([]byte, mad.UserSize+mad.Size)
	u.Put(b[:mad.UserSize])
	head.Put(b[mad.UserSize:])
	copy(b[mad.UserSize+mad.HeaderSize:], data)
	h, _, _ := m.request(opWrite, m.inode, writeRequest(b))
	return unix.Errno(h.error)
}

// read waits for a datagram and reads it, as the shim does.
func (m *madRig) read() (mad.User, []byte) {
	m.Helper()
	var token [1]byte
	n, err := m.fd.Read(token[:])
	require.NoError(m, err)
	require.Equal(m, 1, n)
	errno, b := m.call(opMADRead, 64<<10, 0, nil)
	require.Zero(m, errno)
	u := mad.ParseUser(b[:mad.UserSize])
	require.Equal(m, len(b), int(u.Length))
	return u, b[mad.UserSize:]
}

func getNodeInfo(tid uint64) mad.Header {
	return mad.Header{BaseVersion: 1, Class: mad.ClassSMP, ClassVersion: 1, Method: mad.Get, TID: tid, Attribute: mad.AttrNodeInfo}
}

func newMADRig(t *testing.T) *madRig {
	return newServingWith(t, Config{Links: []Link{InfiniBand}, NoDEVX: true}).rig(t).openMAD(0)
}

// Each wrong registration is refused as Linux does.
func TestMADAgents(t *testing.T) {
	m := newMADRig(t)
	for _, row := range []struct {
		name  string
		errno unix.Errno
		arg   []byte
	}{
		{"queue pair 2", unix.EINVAL, registration(2, 4, 1, 0, 0)},
		{"RMPP version 2", unix.EINVAL, registration(1, 3, 2, 2, 0)},
		{"RMPP of performance management", unix.EINVAL, registration(1, 4, 1, 1, 0)},
		{"class version", unix.EINVAL, registration(1, 4, 0x83, 0, 0)},
		{"class", unix.EINVAL, registration(1, 0x50, 1, 0, 0)},
		{"vendor without OUI", unix.EINVAL, registration(1, 0x32, 1, 0, 0)},
		{"subnet management at queue pair 1", unix.EINVAL, registration(1, 1, 1, 0, 0)},
		{"performance management at queue pair 0", unix.EINVAL, registration(0, 4, 1, 0, 0)},
	} {
		require.Equal(t, row.errno, m.ioctl(mad.RegisterAgent, row.arg), row.name)
	}
	ping := registration(1, mad.ClassPing, 1, 0, 0x1405, mad.Get)
	require.Zero(t, m.ioctl(mad.RegisterAgent, ping))
	require.Equal(t, eINVAL, m.ioctl(mad.RegisterAgent, ping), "the method is taken")
	require.Equal(t, eINVAL, m.ioctl(mad.EnablePKey, nil), "after the first agent")
	require.Zero(t, m.ioctl(mad.UnregisterAgent, u32s(0)))
	require.Equal(t, eINVAL, m.ioctl(mad.UnregisterAgent, u32s(0)))
	for range madAgents {
		require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, 3, 2, 1, 0)))
	}
	require.Equal(t, eNOMEM, m.ioctl(mad.RegisterAgent, registration(1, 3, 2, 1, 0)))
	require.Equal(t, unix.ENOTTY, m.ioctl(0x1b7f, nil))
}

// A request is answered with its TID, a second one with the same TID is refused while it waits, and one that
// nobody answers comes back.
func TestMADRequests(t *testing.T) {
	m := newMADRig(t)
	own := m.s.devices[0].lid
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	require.Equal(t, eIO, m.write(mad.User{ID: 1, LID: own}, getNodeInfo(1)))
	require.Equal(t, eINVAL, m.write(mad.User{ID: 32, LID: own}, getNodeInfo(1)))

	require.Zero(t, m.write(mad.User{LID: own, Timeout: 1000}, getNodeInfo(7)))
	u, b := m.read()
	require.Equal(t, mad.User{LID: own, Length: mad.UserSize + mad.Size}, u)
	h := mad.ParseHeader(b)
	require.Equal(t, uint8(mad.GetResp), h.Method)
	require.Equal(t, uint32(7), uint32(h.TID))
	require.Equal(t, m.s.devices[0].guid, mad.ParseHeader(append(make([]byte, 8-4), b[64+8:64+40]...)).TID, "bytes 12 to 19 of NodeInfo")

	nobody := mad.User{LID: 0xbffe, Timeout: 100}
	require.Zero(t, m.write(nobody, getNodeInfo(8)))
	require.Equal(t, eINVAL, m.write(nobody, getNodeInfo(8)), "it waits")
	u, b = m.read()
	require.Equal(t, uint32(unix.ETIMEDOUT), u.Status)
	require.Len(t, b, mad.HeaderSize)
	require.Zero(t, m.write(nobody, getNodeInfo(8)), "it waits no more")
}

// A datagram that does not fit stays in the queue.
func TestMADReads(t *testing.T) {
	m := newMADRig(t)
	own := m.s.devices[0].lid
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassSA, 2, 1, 0)))
	errno, _ := m.call(opMADRead, 1000, 0, nil)
	require.Equal(t, eAGAIN, errno)
	require.Zero(t, m.write(mad.User{LID: own, Timeout: 1000}, getNodeInfo(1)))
	errno, _ = m.call(opMADRead, mad.UserSize+mad.Size-1, 0, nil)
	require.Equal(t, eINVAL, errno)
	_, _ = m.read()

	all := mad.Header{BaseVersion: 1, Class: mad.ClassSA, ClassVersion: 2, Method: mad.GetTable, Attribute: mad.AttrNodeRecord}
	require.Zero(t, m.write(mad.User{ID: 1, LID: subnetManagerLID, Timeout: 1000}, all))
	errno, b := m.call(opMADRead, mad.UserSize+mad.Size, 0, nil)
	require.Equal(t, eNOSPC, errno)
	require.Len(t, b, mad.UserSize+mad.Size)
	require.Equal(t, uint32(mad.UserSize+mad.SADataAt+3*112), mad.ParseUser(b[:mad.UserSize]).Length)
	_, b = m.read()
	require.Len(t, b, mad.SADataAt+3*112, "a switch and two ports")
}

// A program that never reads holds up nobody, and loses what does not fit.
func TestMADUnread(t *testing.T) {
	m := newMADRig(t)
	other := m.s.rig(t).openMAD(0)
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	for i := range 2 * madQueue {
		require.Zero(t, m.write(mad.User{LID: m.s.devices[0].lid, Timeout: 1000}, getNodeInfo(uint64(i))))
	}
	require.Zero(t, other.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	require.Zero(t, other.write(mad.User{LID: m.s.devices[0].lid, Timeout: 1000}, getNodeInfo(1)))
	_, _ = other.read()
	require.NoError(t, m.fd.Close())
	await.Until(t, "the file has ended", func() bool {
		m.s.mads.mu.Lock()
		defer m.s.mads.mu.Unlock()
		return len(m.s.mads.files) == 1
	})
}

// A port of RoCE has no subnet management, and no program becomes the subnet manager.
func TestMADRefusals(t *testing.T) {
	r := newRig(t)
	m := r.openMAD(0)
	require.Equal(t, ePROTONOSUPPORT, m.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassPM, 1, 0, 0)))
	require.Equal(t, eINVAL, m.write(mad.User{LID: 2}, getNodeInfo(1)), "no GRH")
	for device, errno := range map[uint64]unix.Errno{issmMinor: ePERM, 2: unix.ENXIO, 2 * issmMinor: unix.ENXIO} {
		h, _, _ := r.request(opOpenMAD, 0, le.AppendUint64(nil, device))
		require.Equal(t, errno, unix.Errno(h.error))
	}
	r.p.uid = 12345
	h, _, _ := r.request(opOpenMAD, 0, le.AppendUint64(nil, 0))
	require.Equal(t, unix.EACCES, unix.Errno(h.error), "another user")
}

// Whatever programs write, the server answers, and other programs are served.
func FuzzMAD(f *testing.F) {
	for _, class := range []byte{mad.ClassSMP, mad.ClassDirected, mad.ClassSA, mad.ClassPM, mad.ClassPing} {
		for _, method := range []byte{mad.Get, mad.Set, mad.GetTable, mad.GetResp} {
			b := make([]byte, mad.UserSize+mad.Size)
			b[0], b[29] = class%3, 2
			mad.Header{BaseVersion: 1, Class: class, ClassVersion: 1, Method: method, Attribute: 0x15}.Put(b[mad.UserSize:])
			f.Add(b)
		}
	}
	s := newServingWith(f, Config{Links: []Link{InfiniBand}, NoDEVX: true})
	s.log = slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := s.rig(t).openMAD(0)
		defer m.fd.Close()
		for _, arg := range [][]byte{registration(0, mad.ClassSMP, 1, 0, 0), registration(1, mad.ClassSA, 2, 1, 0), registration(0, mad.ClassDirected, 1, 0, 0)} {
			require.Zero(t, m.ioctl(mad.RegisterAgent, arg))
		}
		h, _, _ := m.request(opWrite, m.inode, writeRequest(b[:min(len(b), 1024)]))
		require.Contains(t, []unix.Errno{0, eINVAL, eIO, eNOMEM}, unix.Errno(h.error))
		errno, answer := m.call(opMADRead, 64<<10, 0, nil)
		require.Contains(t, []unix.Errno{0, eAGAIN}, errno)
		if errno == 0 {
			require.Equal(t, len(answer), int(mad.ParseUser(answer[:mad.UserSize]).Length))
		}
	})
}
