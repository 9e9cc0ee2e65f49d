package verbs

// shareProcess makes the memory of a process known to the device, which then
// copies to and from it where no region is. A context has one process: the one
// that opened it.
func (x *uctx) shareProcess(p *process) error {
	if p.memory != x.owner {
		return refuse(eOPNOTSUPP, "memory of %s: the context was opened by %s, whose memory is meant", p.name, x.name)
	}
	if p.guard.Addr == 0 {
		return refuse(eFAULT, "memory of %s: it could map no guard, by which it is known from a program executed after it", p.name)
	}
	return x.client.ShareProcess(int(p.pid), p.guard)
}

// settle executes what the doorbells of this context announce already. A command
// that ends or replaces a queue comes after that: it took another way, and a
// program counts on its order.
func (x *uctx) settle() { x.client.Settle() }
