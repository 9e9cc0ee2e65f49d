package shm

// WFE waits for a line too (LDAXR arms the monitor), but has no time of its own at
// which it ends: that is the kernel's event stream, every 100 us if it is there at
// all. So long nobody would look at the other queues. WFET, which has a time, is
// not in the processors that are common now.
const canMonitor = false

func umonitor(*uint32) {}
func umwait(uint32)    {}
func tpause(uint32)    {}
