//go:build linux && (amd64 || arm64)

package verbs

// shareProcess gives the engine the process that has the memory of those memory regions that
// are not in shared memory, so that the engine can copy from and to that process. Only the
// process that opened the context can be shared.
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
// context have announced already. Doorbells and commands reach the engine in different ways,
// but a program relies on their order: work that it posts before a command that ends or
// replaces a queue is done before the command.
func (x *uctx) executeAnnounced() { x.client.Drain() }
