package verbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A smallPort is a fabric with as many paths as a RoCE port, which anybody can take.
type smallPort struct {
	*cableEnd
	held map[string]int
}

const portPaths = 4096

func (p *smallPort) Path(to RemotePort, class, hops uint8, _ nic.User) (nic.Path, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprint(to.GID, class, hops)
	if p.held[key] == 0 && len(p.held) == portPaths {
		return nic.Path{}, nil, fmt.Errorf("all %d paths are in use", portPaths)
	}
	p.held[key]++
	return nic.Path{}, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held[key]--
		if p.held[key] == 0 {
			delete(p.held, key)
		}
	}, nil
}

func (p *smallPort) paths() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// pathAddress returns one of 2^32 GIDs elsewhere.
func pathAddress(i int) (gid [gidSize]byte) {
	gid[0] = 0x20
	binary.BigEndian.PutUint32(gid[12:], uint32(i))
	return gid
}

// addressHandle makes an address handle.
func (p *program) addressHandle(to [gidSize]byte) answer {
	req := make([]byte, abi.CreateAHSize)
	le.PutUint32(req[abi.CreateAHPDHandle:], p.pd)
	a := req[abi.CreateAHAttr:]
	a[abi.AHAttrIsGlobal], a[abi.AHAttrPortNum] = 1, 1
	copy(a[abi.AHAttrGRHDGID:], to[:])
	return p.write(p.ctx, abi.CmdCreateAH, req, abi.CreateAHRespSize, arg{id: abi.AttrUHWOut, out: abi.MLX5CreateAHRespSize})
}

// A user can hold half of the paths that are free, by address handles, queue pairs, traffic
// classes and hop limits together. Objects with the same address hold one path. Address handles
// beyond that are made, but hold nothing.
func TestUserLeavesPathsToOthers(t *testing.T) {
	port := &smallPort{&cableEnd{cable: &cable{}}, make(map[string]int)}
	s := newServingWith(t, Config{Fabric: port})
	greedy := s.rig(t).program()
	for i := range portPaths + 100 {
		greedy.ok(greedy.addressHandle(pathAddress(i)))
	}
	taken := port.paths()
	require.LessOrEqual(t, taken, portPaths/2, "one user")
	require.Greater(t, taken, portPaths/4)
	x := greedy.context()
	address := func(i int, class, hops uint8) peerAddress {
		return peerAddress{port: 1, global: 1, gid: pathAddress(i), class: class, hops: hops}
	}
	connect := func(x *uctx, q *qp, to peerAddress) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.connectElsewhere(q, to)
	}
	one := &qp{object: &object{}}
	for _, to := range []peerAddress{address(1<<20, 0, 0), address(0, 4, 0), address(0, 0, 9)} {
		err := connect(x, one, to)
		require.ErrorIs(t, err, &control.Error{Code: control.CodeLimit})
		require.Equal(t, errnos[control.CodeLimit], refusalOf(err).errno)
		require.ErrorContains(t, err, fmt.Sprintf("has %d paths", taken))
	}
	require.NotErrorIs(t, connect(x, one, address(0, 0, 64)), &control.Error{Code: control.CodeLimit}, "the user has that path")
	require.NotErrorIs(t, connect(x, one, address(0, 3, 0)), &control.Error{Code: control.CodeLimit}, "ECN bits make no other path")

	other := s.rig(t)
	other.p.uid = uint32(os.Getuid()) + 1
	two := other.program()
	for i := range 500 {
		two.ok(two.addressHandle(pathAddress(1<<24 + i)))
	}
	require.GreaterOrEqual(t, port.paths(), taken+500, "another user")
	require.Less(t, port.paths(), portPaths*3/4, "the rest is for datagrams and strangers")

	x.end()
	two.context().end()
	require.Zero(t, port.paths())
	require.Empty(t, s.paths.counts)
	require.NoError(t, s.engine.Charge(two.p.uid, nic.Cost{Paths: taken}), "all is refunded")
	s.engine.Refund(two.p.uid, nic.Cost{Paths: taken})
}

// A queue pair that is connected keeps its path, whatever address a later request has.
func TestConnectedQueuePairKeepsItsPath(t *testing.T) {
	port := &smallPort{&cableEnd{cable: &cable{}}, make(map[string]int)}
	s := newServingWith(t, Config{Fabric: port})
	p := s.rig(t).program()
	cq := p.ok(p.createCQ(16, 0)).value[abi.AttrCreateCQHandle]
	h := p.ok(p.createQP(abi.QPTRC, cq)).value[abi.AttrCreateQPHandle]
	modify := func(state uint8, mask uint32, to int) unix.Errno {
		b := change(h, state, mask)
		gid := pathAddress(to)
		copy(b[abi.ModifyQPDest+abi.QPDestDGID:], gid[:])
		return p.exModify(b, 8).errno
	}
	const (
		rtr = control.AttrState | control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN |
			control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
		rts = control.AttrState | control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN | control.AttrMaxRdAtomic
	)
	first := fmt.Sprint(pathAddress(1), 0, 0)
	require.Zero(t, modify(abi.QPSInit, control.AttrState|control.AttrAccess|control.AttrPKeyIndex|control.AttrPort, 0))
	require.Zero(t, modify(abi.QPSRTR, rtr, 1))
	require.Zero(t, modify(abi.QPSRTS, rts, 0))
	require.Equal(t, map[string]int{first: 1}, port.held)
	require.Equal(t, unix.EINVAL, modify(0, control.AttrAV, 2), "it is in RTS")
	require.Equal(t, map[string]int{first: 1}, port.held)
	require.Zero(t, modify(abi.QPSSQD, control.AttrState, 0))
	require.Zero(t, modify(0, control.AttrAV, 2))
	require.Equal(t, map[string]int{first: 1}, port.held)
	require.Zero(t, modify(abi.QPSReset, control.AttrState, 0))
	require.Empty(t, port.held)
}
