// Package bench measures the cost of moving bytes through a device, and compares it with the
// floor. The floor is the least time that the same two cores need to move the same cache lines,
// without checks and without a protocol.
//
// Terms: a run is one sample, the mean over many operations. A value is the median of the
// runs. 1 MB is 1e6 bytes. A latency is the time from before a work request is posted until
// its completion has been polled, with one request at a time. Before each run of the device
// there is a run of the floor on the same cores, so that both see the machine in the same
// state. Ratios are taken run by run.
//
// Every byte that a measurement moves is compared with its source afterwards.
//
// Files, in reading order:
//
//	config.go, run.go, report.go      one measurement: nicless bench lat, rate, bw
//	pair.go                           two connected queue pairs that move payloads
//	floor.go, floor_shape.go          the memory of the floors, and the lines that each has
//	floor_poster.go, floor_device.go  their two sides
//	stream_floor.go, wake.go          the floors of streams, and of a wake-up
//	stint.go, sample.go,
//	undisturbed.go                    time, and disturbance by other programs
//	tail.go                           percentiles of single operations
//	sibling.go, sibling_loops.go      programs on the other hyperthreads of the cores
//	cpu.go                            cores, and the machine that a table names
//	all.go, rows.go                   the table of nicless bench all
//	table.go, table_print.go          its rows and figures, and how they are printed
//	active.go, active_rows.go         rows of many queue pairs that are used in turn
//	beside.go, control.go, crowd.go,
//	foreign.go, hold.go, idle.go      the other rows of that table that Run does not measure
//	process.go, usage.go              engines that run as separate processes
//	realtime.go                       refuses such rows under a real-time policy
//	sweep.go, plot.go, baseline.go    plots, and comparison with an earlier table
//	benchstat.go                      the table as benchstat reads it
package bench
