// Package programs runs real verbs programs on the device, as real processes: those of
// Debian (ibverbs-utils, perftest, rdma-core's own tests), unmodified, and those of
// verbs/check. It has only tests.
//
// A plain go test runs a short list of programs. Continuous integration runs the whole
// list, which takes minutes:
//
//	go test ./verbs/programs -programs
//
// Each test has an engine of its own, a process. A test whose programs are not installed is
// skipped, except where the variable CI is "true".
package programs
