package verbs

// shareProcess makes the memory of a process known to the device, which then
// copies to and from it where no region is. A context has one process: the one
// that opened it.
func (x *uctx) shareProcess(p *process) error {
	if p.memory != x.owner {
		return refuse(eOPNOTSUPP, "memory of %s: the context was opened by %s, whose memory is meant", p.name, x.name)
	}
	return refuse(eOPNOTSUPP, "memory of %s is not shared, and this device cannot reach it elsewhere", p.name)
}
