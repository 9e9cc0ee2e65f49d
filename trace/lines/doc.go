// Package lines makes of the events of a trace the accesses to cache lines of which nicless model says what
// they would cost on other fabrics: a model.Trace.
//
// A trace has what the device did. The accesses follow from it as package model/traffic describes them for
// WQEs of the slow path. The poster stores blocks, record and register; the device loads the record, the
// blocks, the keys, the receive and the payload, and stores payload and CQEs; the poller loads the CQEs. A
// queue pair that sends is of the host, and the one that receives of the peer.
//
// Some things a trace does not tell:
//
//   - Accesses of programs to payload, and polls in vain. There are none.
//   - Where a receive points. Payload that it gets is at lines of its own.
//   - The sizes of completion queues. Each counts as large as the largest queue that uses it.
//   - Which lines of memory an address has: pages of 4 KiB are numbered in the order in which they are first
//     used. Pages that the device reads and those that it writes are different regions.
//
// Work of queue pairs whose peer is on another device is left out: package costs prices one device.
//
// A model.Trace is small: at most MostAccesses and MostLines. So are the needs of a Maker.
//
// # Files
//
//   - maker.go: from events to accesses
//   - move.go: the accesses of one WQE
//   - regions.go: which region and which line something is in
package lines
