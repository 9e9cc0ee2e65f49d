// Package bench measures the cost of moving bytes through a device, beside the floor: the
// least that the same two cores need for the same movement of cache lines, without checks
// and without a protocol.
//
// Terms: a run is one sample, the mean over many operations; a value is the
// median of the runs; 1 MB is 1e6 bytes. Latency is from before a work request
// is posted until its completion has been polled, one at a time. Each run of
// the device is preceded by one of the floor, on the same cores, so that both
// see the machine in the same state, and ratios are taken run by run.
//
// Every byte that a measurement moves is compared with its source afterwards.
//
// Files, in reading order:
//
//	config.go, run.go, report.go      one measurement: nicless bench lat, rate, bw
//	pair.go                           two connected queue pairs that move payloads
//	floor.go, wake.go                 the floors
//	stint.go, undisturbed.go          time, and disturbance by other programs
//	all.go, rows.go, table*.go        the table of nicless bench all
//	active*.go, beside.go, control.go,
//	crowd.go, foreign.go, idle.go     its other rows
//	process.go, usage.go              engines in processes of their own
//	sweep.go, plot.go, baseline.go    plots, and comparison with an earlier table
package bench
