// Package programs runs real verbs programs on the device, as real processes: those
// that Debian ships (ibverbs-utils, perftest, rdma-core's own tests), which nobody
// has changed or rebuilt, and those of verbs/check. It has only tests.
//
// A plain go test runs a short list. With -programs it is the whole one, minutes
// long, as continuous integration does:
//
//	go test ./verbs/programs -programs
//
// Each test has an engine of its own, a process. Programs that are not installed
// are skipped, except where the variable CI is set.
package programs
