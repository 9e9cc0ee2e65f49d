// Package trace reads and writes what a device did: the stream of events that an engine writes
// while somebody watches it. It works on every system that Go builds for; only a Ring, which is memory of
// an engine, needs the system of that engine.
//
// # Terms
//
// An event is one thing that the device did: it fetched WQEs, wrote a CQE, sent a packet. A record is the
// bytes of an event. A watch is what somebody has asked an engine to record; it has a ring of records for
// each shard of the engine. A trace is a file of records, whose events are in the order of their times.
//
// # Layout of a record
//
// All numbers are little-endian. A record begins at a multiple of 8 bytes.
//
//	offset  bytes
//	0       2      size of the record in bytes, a multiple of 8; at least 32
//	2       1      kind; see Kind
//	3       1      bits 2..0: how many bytes of the record after its data are padding, all 0
//	4       4      number: events of one shard of a watch are counted, modulo 2^32
//	8       8      time: device clock, in ticks
//	16      4      queue: number of the queue, key or client that the event is about
//	20      2      index
//	22      2      count
//	24      8      value
//	32      ...    data
//
// The meaning of index, count, value and data depends on the kind; see the constants of Kind. A record of
// kind KindSkip has only the first 8 bytes: it fills the end of a ring.
//
// # Layout of a ring
//
//	offset  bytes
//	0       8      "nicltrng"
//	8       4      version, 1
//	12      4      number of the shard
//	16      8      bytes of the data area, a power of two
//	24      8      ticks of the device clock in a second
//	32      8      device clock at a moment, and
//	40      8      time of day at the same moment, in nanoseconds since 1970
//	48      8      GUID of the device
//	128     8      published: bytes of records written so far
//	192     8      reserved: the engine may write records up to this count of bytes
//	4096    ...    data area; the byte with count n is at n modulo its size
//
// The engine writes; watchers only read. Records up to published are whole. The engine raises reserved
// before it overwrites anything. So a watcher copies records, then reads reserved, and drops the copy if
// the first byte of it is more than the size of the data area behind reserved. Then it has been too slow:
// it goes on at published, and the numbers of the events say how many were lost.
//
// # Layout of a trace
//
//	offset  bytes
//	0       8      "nicltrac"
//	8       4      version, 1
//	12      4      minor version, 4; 3 in those without the kinds after KindPlan,
//	                      2 in traces that do not say what starts a send queue
//	                      and which pieces a list has, 1 in those without KindPlan, 0 in those
//	                      without the kinds after KindEnd
//	16      8      ticks of the device clock in a second
//	24      8      device clock at a moment, and
//	32      8      time of day at the same moment, in nanoseconds since 1970
//	40      8      GUID of the device
//	48      16     0
//	64      ...    records; the last one is of kind KindEnd
//
// # Files
//
//   - event.go: Event and Kind
//   - queue.go, key.go: the data of events about queue pairs and keys
//   - setup.go: what a replay needs of queues and keys, and payload
//   - change.go: the data of events about bytes that were changed too early
//   - record.go: the bytes of records
//   - ring.go: the ring of a watch: layout, and the end that reads
//   - file.go: traces in files
package trace
