//go:build linux && (amd64 || arm64)

package verbs

// shareProcess tells the engine from which process it copies, and to which, where a memory
// region is not in shared memory. For a context that is the process which opened it.
func (x *uctx) shareProcess(p *process) error {
	if p.memory != x.owner {
		return refuse(eOPNOTSUPP, "memory of %s: the context was opened by %s, and only that process can register memory", p.name, x.name)
	}
	if p.guard.Addr == 0 {
		return refuse(eFAULT, "memory of %s: it could map no guard, which tells it apart from a program executed after it", p.name)
	}
	return x.client.ShareProcess(int(p.pid), p.guard)
}

// executeAnnounced has the engine execute the work requests that the doorbells of this
// context announce already. Doorbells and commands take different ways to the engine, and a
// program relies on their order: work that it posted before a command which ends or
// replaces a queue is done before that.
func (x *uctx) executeAnnounced() { x.client.Settle() }
