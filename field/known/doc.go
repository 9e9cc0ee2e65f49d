// Package known is what is known about the errors of mlx5 queues: the explanations of
// docs/EXPLANATIONS.md, the syndromes of error CQEs with their probable causes, and the vendor
// bytes that have been seen on hardware.
//
// The vendor documents no table of vendor bytes, so each one here has its sources, and each
// statement says how sure it is ([Sure]). [Find] goes from words that people paste, such as
// "key-access", "syndrome 0x13" or "IBV_WC_REM_ACCESS_ERR", to the rows.
//
//   - explanations.go, explanations_work.go, explanations_peers.go: the codes
//   - syndromes.go, causes.go, vendors.go: what error CQEs mean
//   - when.go: the causes that one failure can have
//   - facts.go, words.go: what a line of a log says about a completion
//   - find.go, near.go: rows by words, and the nearest names
//
// The package has tables only: it builds on every system. Its functions are safe for
// concurrent use.
package known
