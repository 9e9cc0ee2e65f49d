// Package flood sends datagrams to the RoCE port of a host as fast as a hostile program can:
// for tests, benchmarks and torture. A flood is bounded in rate and time. It is meant for
// addresses of the host itself, or of a network that a test has made.
package flood
