// Package programs runs real verbs programs on the device, as real processes. They are
// unmodified programs of Debian (ibverbs-utils, perftest, rdma-core's own tests) and the
// programs of verbs/check. The package has only tests.
//
// A plain go test runs a short list of programs. Continuous integration runs the whole
// list, which takes minutes:
//
//	go test ./verbs/programs -programs
//
// Each test has an engine of its own, which is a process. A test whose programs are not
// installed is skipped; it fails if the environment variable CI is "true".
package programs
