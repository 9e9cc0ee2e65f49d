//go:build !amd64

package cpu

// On arm64 WFE waits for a line too (LDAXR arms the monitor), but without a time limit of
// its own: the kernel's event stream ends it every 100 us, where that is enabled at all. In
// that time no other queue would be polled. WFET has a time limit, but the processors that
// are common now lack it.
const canMonitor = false

func umonitor(*uint32) {}
func umwait(uint32)    {}
func tpause(uint32)    {}
