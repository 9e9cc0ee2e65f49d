// Package costs says what the accesses to a NIC's queues and payload cost, if these lie in host memory, in
// the device's memory or in a pool, and the device is a core, a CXL device or behind PCIe. It also says how
// far each answer can be trusted: every price has a range, a mark and a source.
//
// Terms: an access, a trace and a structure are those of package model. A fabric is a table of rules: what
// a request costs in a state of the line, which messages it sends and in which state it leaves the line. A
// preset is a fabric with prices in nanoseconds, and with the places of the structures. The critical path
// of a work request is the chain of accesses, each of which waited for the one before, from the first to
// the one that sees the result.
//
// It answers these questions: how many serial transfers of lines an interface costs, and which structure
// causes them; which placement or request removes one; how the order of designs changes with a price. It
// knows no percentiles, queueing or effects of the capacity of caches. docs/CXL.md shows how far it agrees
// with measurements.
//
// Package model/traffic makes traces of what the engine does.
//
// Files, in reading order:
//
//	state.go         the state of a line
//	rule.go          requests, rules, fabrics
//	rules_mesi.go    cores of one host
//	rules_cxl.go     CXL, lines of host memory
//	rules_devmem.go  CXL, lines of device memory, with host bias and device bias
//	rules_pcie.go    PCIe
//	rules_pool.go    a pool that hosts share
//	quantity.go      numbers with range, trust and source
//	preset.go        presets, read from TOML
//	preset_error.go  lines and keys for errors about presets
//	placement.go     where structures are, and which requests an access becomes
//	price.go         prices that are computed from others
//	pricer.go        when each access of a trace begins and ends
//	cost.go          what an access costs in the states of its lines
//	report.go        the critical path, messages, bounds, what a report rests on
//	loopback.go      the trace of CXL-NIC's experiment
//	floors.go        exchanges of lines between two cores
//	validate.go, bf3.go, validate_table.go   predictions beside what others measured
//	table.go, grid.go, digits.go   reports of several presets beside each other, as text and JSON
//	bars.go          the same as a picture
//	sweep.go, lines.go   what a price changes, and where two presets cross; as a picture
//	rack.go, rack_table.go   the nodes of a pool: contention for its devices and links
//	show.go, diff.go   all numbers of a preset; what differs between two
package costs
