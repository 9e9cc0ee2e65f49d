// Package model says which cache lines of a NIC's queues and payload are accessed, by whom and why, and
// has a file form of such traces.
//
// Terms: an access is a load or store of cache lines by an agent (host, peer, device). A trace is a list
// of accesses, and the regions that they name. A structure is what a region is part of: a queue, doorbell
// records, payload.
//
// The package imports nothing of this module. Package model/traffic makes traces of what the engine does,
// and the engine's tests compare both. Package costs in the module of the instruments says what a trace
// costs.
//
// Files, in reading order:
//
//	access.go        accesses and traces
//	trace.go         the file form of a trace: format, limits, reader
//	trace_json.go    strict JSON
//	trace_line.go    the lines of the file
//	trace_write.go   writer, and the checks that both share
package model
