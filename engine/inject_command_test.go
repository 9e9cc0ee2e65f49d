//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// gone requires that a key is unknown, as after dereg_mr, and makes dereg of it a no-op.
func (k *key) gone() {
	k.h.Helper()
	require.Nil(k.h, k.h.e.Keys.Find(k.key))
	k.h.refused(control.CodeNotFound, "", control.OpDeregMR, &control.Key{Key: k.key}, nil)
}

// A key goes before a short request is executed, or after the first slice of a long one, as if its owner had
// deregistered it. The queue pairs see what they see after that.
func TestRuleDeregisters(t *testing.T) {
	for _, size := range []int{8, 300_000} {
		for _, c := range []struct {
			op   wqe.Opcode
			side fault.Side
			want cqe.Syndrome
			key  string // which key goes
		}{
			{wqe.OpRDMAWrite, fault.Remote, cqe.RemoteAccess, "far"},
			{wqe.OpRDMAWrite, fault.Local, cqe.LocalProtection, "local"},
			{wqe.OpRDMARead, fault.Remote, cqe.RemoteAccess, "far"},
			{wqe.OpRDMARead, fault.Local, cqe.LocalProtection, "local"},
			{wqe.OpSend, fault.Remote, cqe.RemoteOperation, "far"},
			{wqe.OpSend, fault.Local, cqe.LocalProtection, "local"},
			{wqe.OpAtomicFA, fault.Remote, cqe.RemoteAccess, "far"},
			{wqe.OpAtomicFA, fault.Local, cqe.LocalProtection, "local"},
		} {
			if c.op == wqe.OpAtomicFA && size > 8 {
				continue
			}
			everywhere(t, func(t *testing.T, s *scene) {
				if s.p.q.Wire != nil && c.side == fault.Remote {
					return // the key is another device's
				}
				set := s.setFaults(fault.Rule{Match: s.of(1), Deregister: c.side})
				local, far := s.p.h.full(size, 1), s.q.h.full(size, 3)
				s.q.recv(far.data(0, size))
				before := far.mem[0]
				var index uint16
				switch c.op {
				case wqe.OpSend:
					index = s.p.post(ctrl(c.op), local.data(0, size))
				case wqe.OpAtomicFA:
					index = s.p.post(ctrl(c.op), far.raddr(0), wqe.Atomic{SwapAdd: 2}, local.data(0, size))
				default:
					index = s.p.post(ctrl(c.op), far.raddr(0), local.data(0, size))
				}
				s.settle()
				s.failed(s.p.scq.one(), c.want, index)
				require.EqualValues(t, 1, set.Acted(0))
				switch {
				case c.op == wqe.OpAtomicFA && c.side == fault.Local:
					require.Equal(t, before+2, far.mem[0], "the key of the result is looked at afterwards")
				case size == 8:
					require.Equal(t, before, far.mem[0], "nothing is executed")
				}
				if c.key == "far" {
					far.gone()
				} else {
					local.gone()
				}
				s.others()
			})
		}
	}
}

// A rule for a key that the work request does not have does nothing.
func TestRuleDeregistersNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.setFaults(fault.Rule{Match: first, Deregister: fault.Local})
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.mem[:8])
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.works()
	})
}

// A client in the device's process is closed. Its peer sees what it sees after that.
func TestRuleKillsAClient(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.setFaults(fault.Rule{Match: s.of(2), Kill: true})
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		clear(s.far.mem)
		s.put()
		s.dies(s.p)
		require.Equal(t, make([]byte, 8), s.far.mem[:8])
		require.Equal(t, control.StateRTS, s.q.state())
		index := s.q.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.far.data(0, 8))
		s.expireAll()
		s.failed(s.q.scq.one(), cqe.TransportRetry, index)
	})
}

// dies steps until the client of p has no queue pair any more.
func (s *scene) dies(p *end) {
	s.Helper()
	for range 100_000 {
		s.settle()
		gone := false
		s.d.runner.Do(func() { gone = s.e.QPs[p.num] == nil })
		if gone {
			return
		}
	}
	s.Fatal("the client lives")
}

// expireAll lets timers run out.
func (s *scene) expireAll() {
	if s.q.q.Wire != nil {
		s.settle()
		return
	}
	s.expire()
}

// A client in a process of its own dies with the process, which gets SIGKILL.
func TestRuleKillsAProcess(t *testing.T) {
	r := newRig(t, Config{})
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	defer func() { _ = child.Process.Kill() }()
	h := r.guest(child.Process.Pid)
	p, q := pair(h, r.host("q"))
	s := &scene{rig: r, p: p, q: q, local: h.full(256, 1), far: q.h.full(256, 7)}
	s.setFaults(fault.Rule{Match: s.of(1), Kill: true})
	s.put()
	s.settle()
	err := child.Wait()
	require.Equal(t, syscall.SIGKILL, child.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%v", err)
	s.p.scq.none()
	require.Equal(t, control.StateRTS, p.state()) // until its server closes the client
	require.NoError(t, h.c.Close())
}

// A process that has the number of a client's process by now, and is another one, lives. The client is
// closed.
func TestRuleKillsNobodyElse(t *testing.T) {
	r := newRig(t, Config{})
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	h := r.guest(1<<22 + 1) // no process has this number
	h.c.Hosted.PID = child.Process.Pid
	p, q := pair(h, r.host("q"))
	s := &scene{rig: r, p: p, q: q, local: h.full(256, 1), far: q.h.full(256, 7)}
	s.setFaults(fault.Rule{Match: s.of(1), Kill: true})
	s.put()
	s.dies(p)
	require.NoError(t, child.Process.Signal(syscall.Signal(0)))
}

// A process that a set-user-ID program has made another user's lives, whichever of its uids is another: only
// the client is closed. The process keeps its number and its birth, as at execve.
func TestRuleKillsNoOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for a process that changes its user")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	const alice = 100_001
	for _, c := range []struct {
		uids string // real, effective, saved
		dies bool
	}{
		{"100001, 100001, 100001", true},
		{"0, 0, 0", false},
		{"0, 100001, 100001", false},
		{"100001, 0, 100001", false},
		{"100001, 100001, 0", false},
	} {
		r := newRig(t, Config{})
		child := exec.Command(python, "-c", "import os, sys; os.setresuid("+c.uids+"); print(flush=True); sys.stdin.read()")
		in, err := child.StdinPipe()
		require.NoError(t, err)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = out.Read(make([]byte, 1)) // it has changed
		require.NoError(t, err)
		h := r.guest(child.Process.Pid).asUser(alice)
		p, q := pair(h, r.host("q"))
		s := &scene{rig: r, p: p, q: q, local: h.full(256, 1), far: q.h.full(256, 7)}
		s.setFaults(fault.Rule{Match: s.of(1), Kill: true})
		s.put()
		if c.dies {
			s.settle()
			require.Error(t, child.Wait())
			require.Equal(t, syscall.SIGKILL, child.ProcessState.Sys().(syscall.WaitStatus).Signal())
			continue
		}
		s.dies(p)
		require.NoError(t, in.Close())
		require.NoError(t, child.Wait(), c.uids)
	}
}

// guest makes a client that is in another process.
func (r *rig) guest(pid int) *host {
	r.Helper()
	h := &host{rig: r, base: 0x7000_0000_0000}
	var err error
	create := shm.CreateSealed
	if shm.RaceEnabled {
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	h.c, err = r.d.nic().NewClient("guest", uint32(os.Getuid()), nic.Hosted{PID: pid}, create, create)
	require.NoError(r, err)
	r.Cleanup(func() { _ = h.c.Close() })
	h.mem, err = shm.Heap(regionSize)
	require.NoError(r, err)
	h.region = h.addRegion(h.base, h.mem)
	h.pd = h.allocPD()
	return h
}
