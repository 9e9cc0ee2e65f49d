//go:build !amd64

package cpu

// canMonitor is false on arm64, although WFE waits for a line there too (LDAXR arms the
// monitor). WFE has no time limit: without a store to the line, only the kernel's event stream
// ends WFE, every 100 us, and only if that stream is enabled. Until then no other queue would
// be polled. WFET has a time limit, but the processors that are common now lack it.
const canMonitor = false

func umonitor(*uint32) {}
func umwait(uint32)    {}
func tpause(uint32)    {}
