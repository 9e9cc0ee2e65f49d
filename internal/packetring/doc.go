// Package packetring is a ring of transport packets in shared memory, with one producer and one
// consumer. The two may be threads of a process, processes of a host, or hosts that share a
// pool of memory without coherent atomics. Two rings, one for each direction, are a port of an
// engine.
//
// Terms: a packet is headers (BTH and extension headers, at most MaxHead bytes) and payload. A
// slot is 128 bytes: two cache lines. The data area is memory for payloads that do not fit into
// slots.
//
// # Layout
//
//	offset  bytes           written by
//	0       128             the producer; reserved, 0
//	128     128             the consumer: word 0 is the number of packets that it has consumed
//	256     128 * slots     the producer
//	...     data            the producer
//
// The slot of packet number n, counted from 0, is n modulo the number of slots. All words are
// big-endian:
//
//	word 0  sequence:32 | reserved:8 | head:8 | payload:16; sequence is n + 1, modulo 2^32
//	word 1  path:32 | place:32; place is where the payload begins in the data area, in units of
//	        64 bytes, or all ones if the payload follows the headers in the slot
//	16      headers, and a payload that fits into the slot after them
//
// In a ring with check sums (sum.go) the sum of the packet is in place of the path.
//
// # Ordering
//
// Everything of a packet is written before word 0, which is stored with release order. The
// consumer loads word 0 with acquire order and compares the sequence with the one that it
// expects. Only the producer writes at this place of the slot, so bytes of a payload can
// never be taken for a sequence. The unit of publication is 8 bytes. No word has two writers, and
// there is no read-modify-write operation, because hosts that share a pool may lack atomics.
//
// # Trust
//
// The consumer copies word 0, word 1 and the headers to private memory and checks all lengths
// before it uses them. Payloads are returned in place: a hostile producer can change them at
// any time, so they must not be checked. In a ring with check sums they are private copies, too. The
// producer checks the consumer's count.
//
// # Memory without coherence
//
// If a ring has a Cache, each side writes back what it publishes and invalidates what it
// observes. Every line has one side that writes it. The producer writes everything else of a
// packet back, then the line of word 0. The consumer invalidates the line of word 0 each time
// that it looks, and the other lines of a payload after it has seen word 0. A cache fills a line in one
// piece, so word 1, the headers and payload in the same line are as new as word 0.
//
// # Files
//
//   - layout.go: sizes, and where everything is in a ring
//   - producer.go, consumer.go: the two ends
//   - line.go: packets that fit into the first line of a slot
//   - move.go: how a ring goes on in other memory
//   - sum.go: check sums of packets
//   - standing.go: finds a ring that stands still
package packetring
