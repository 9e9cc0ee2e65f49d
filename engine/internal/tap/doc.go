// Package tap writes the events of a device into rings that watchers read.
//
// A Ring is the end of a ring that writes; trace.Ring is the end that reads. A Set has the rings of one
// shard. Each watch has a number, which is the index of its ring in the Set and the number of its bit in
// every mask: an object that watches 0 and 3 ask for has the mask 1001.
//
// Only the thread that works for the shard may use its Set. Record does not allocate, and makes no system
// call: it copies the event and publishes a count.
//
//   - ring.go: where the next record goes, and when old ones are given up
//   - set.go: which rings an event goes to
package tap
