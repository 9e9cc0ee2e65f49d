//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
)

// Rules that take objects away. That is done between two steps, while no shard works: a command says what
// (loop/commands.go). The WQE waits, or its transfer is cut off, until the command is done.

// die lets the client of q die. The WQE is not executed.
func (sh *injector) die(q *object.QP) object.Verdict {
	f := q.Faults
	if !f.Over {
		f.Over, f.Until = true, inject.Never
		sh.explainInjected(q)
		sh.Commands = append(sh.Commands, inject.Command{Client: q.Client.Number})
	}
	return sh.hold(q)
}

// spoil commands that a ring cannot be read (request/faults_ring.go).
func (sh *injector) spoil(q *object.QP) object.Verdict {
	if q.Faults.Over {
		return object.Accepted
	}
	q.Faults.Over = true
	sh.Commands = append(sh.Commands, inject.Command{QP: q.Num})
	return object.Waiting
}

// deregisterNamed deregisters a key that the next WQE of q names, for WQEs of which no step moves a part: for
// atomics, which are executed when they are checked, and on links. A message that takes longer than a visit
// begins first. A key of another device cannot be deregistered here.
func (sh *injector) deregisterNamed(q *object.QP, n uint16) object.Verdict {
	f, remote := q.Faults, q.Faults.Rule.Deregister == fault.Remote
	info := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:])).Opcode().Info()
	if f.Over || !info.Atomic() && q.Wire == nil {
		return object.Accepted
	}
	facts := sh.facts(q, n)
	keys := facts.Keys
	if info.Raddr && !remote && len(keys) > 0 {
		keys = keys[1:]
	}
	elsewhere := remote && q.Wire != nil
	if len(keys) == 0 || elsewhere || !sh.deregister(q, sh.Keys.Find(keys[0])) {
		f.Over = true
		return object.Accepted
	}
	if facts.Size > uint64(sh.Settings.Slice) {
		return object.Accepted
	}
	return object.Waiting // the next visit finds no such key
}

// cutOff deregisters a key of j, and makes j end before it moves another byte. It reports whether it has
// done so: not if j has no such key.
func (sh *Executor) cutOff(q *object.QP, j *object.Job) bool {
	far, near := &j.Dst, &j.Src
	if j.Reads() {
		far, near = near, far
	}
	if q.Faults.Rule.Deregister == fault.Local {
		far = near
	}
	var k *object.Mkey
	for i := 0; i < far.N && k == nil; i++ {
		k = far.Piece[i].Key
	}
	if !sh.deregister(q, k) {
		q.Faults.Over = true
		return false
	}
	if q.Job == nil {
		sh.KeepJob(q)
	}
	j.Recalled = true
	return true
}

// deregister commands that a key is deregistered, as if its owner had asked for that now. It reports whether
// the owner could, and the rule may.
func (sh *injector) deregister(q *object.QP, k *object.Mkey) bool {
	f := q.Faults
	if k == nil || k.Client == nil || k.Windows > 0 {
		return false
	}
	if sh.spares(q, k.Client) {
		return false
	}
	f.Over = true
	sh.explainInjected(q)
	sh.Commands = append(sh.Commands, inject.Command{Key: k.Key})
	return true
}
