// Package traffic says which cache lines a work request touches, and who touches them, in the
// order in which it happens. The result is a trace that package model can price.
//
// An Expander knows the queues of a connection: how large they are, and how many entries have been
// used. It expands requests that are given as the bytes of their WQEs and receives. Synth makes such
// requests: steady traffic of one kind. Expander and Synth describe what package hostpath and package
// engine do on this machine. Tests of package engine watch every access of the engine, and of programs that
// post and poll, and compare the accesses with the expansion (TestTouches, TestTouchesOfPrograms). So
// the expansion cannot drift from the code.
//
// # Who does what
//
// The host (model.Host) posts to the send queue and polls its CQ. The peer (model.Peer) is the
// thread behind the other queue pair: it posts receives, and polls their CQ, or the last line of a
// payload that a WRITE brings. The device (model.Dev) polls, executes and completes.
//
// Each queue pair has one line for its doorbell record, which holds the counters of both its
// queues. The device polls the counter of sends in that line. So a peer that posts a receive takes the
// line from the device, and the device fetches the line again on its next idle visit. The record of a
// shared receive queue is a line of its own, which the device reads only when a message comes. The
// consumer index of a CQ and its arm word are in one line as well. Records, rings and registers share
// no line with each other. The notes in which posters and pollers remember their requests are not shared with
// the device and are left out.
//
// # What the device touches
//
// On an idle visit the device reads the doorbell record of each queue pair. If the queue pair has
// a BlueFlame register, it also reads both halves of the register, or, if the last WQE came through
// the register, only the half that comes next.
//
// For a WQE the device reads, in this order: the record (or the half of the register), the WQE, the
// record of the receive queue and the entry there if the operation takes a receive, the source; and
// it writes the target, the CQE of the receive, and the CQE of the WQE if that is signaled. Some of
// this is not obvious:
//
//   - A WRITE with immediate reads the entry of the receive, although its list is not used.
//   - The fast path reads 16 bytes of an entry, the slow path all of it. The slow path is taken by
//     everything but short WRITEs, READs, SENDs and atomics with one piece of memory.
//   - The device reads a consumer index only when the queue has no room according to the index that
//     the device read last: once in each lap of a CQ.
//   - CQEs of 128 bytes are two lines that the device writes, and only one that pollers read.
//   - WQEs that differ only in their addresses, and are announced together, are a series: all
//     their bytes are moved before their completions are written.
//   - The device executes a WQE from a BlueFlame register if the fast path takes the WQE, and then does
//     not read the ring. Otherwise the device reads register, record and ring.
//   - The fast path looks at every SEND first, also at a SEND that it leaves to the slow path. After the
//     first block of the WQE the fast path reads the record of the receives.
//   - A compare-and-swap whose comparison fails only reads the word. The expansion describes a
//     compare-and-swap that succeeds.
//   - Once in 32 steps, in a round, the device reads the arm register of each CQ that has a completion
//     channel. In every 32nd round the device also reads the line of the CQ's arm word and consumer
//     index, and so takes it from the poller.
//   - A DUMP reads none of the memory that it names. NOP, WAIT, SEND_EN and UMR read only the WQE.
//   - Key tables are memory of the device (region "keys", one line for each key).
//
// Pollers that find data in a CQE read the work request again, to learn where the data belong.
//
// The host stores the doorbell also to a register of its UAR page, which the device does not read.
//
// # What is left out
//
// Once in 32 steps the device looks for mistakes of one queue pair. If that queue pair has never sent
// anything, the device then reads the first block of its send ring. Requests that move
// more than 64 KiB together are executed in several visits, each of which reads the record again; the
// expansion lets a visit end with a request. Also left out: transports other
// than RC and UC, compressed and collapsed CQs, links to other devices, several threads of a
// device, WQEs that fail.
//
// # Files
//
//   - traffic.go: in which order a doorbell's requests are posted, executed and polled
//   - regions.go: which region a line is in
//   - parse.go: where the payload of a request comes from and goes, and whether it is carried in a CQE
//     (arrange)
//   - host.go: which lines host and peer touch to post and to poll; who polls a payload or a completion
//   - idle.go: which lines the device polls when there is nothing to do
//   - device.go: whether a WQE takes the fast path (fast); which lines its execution touches, payload and CQE
//     too
//   - fastpath.go: which WQEs are a series, and which lines the fast path touches
//   - lines.go: which lines a WQE, a receive or a CQE has, and when the device loads a consumer index
//   - synth.go: which forms of steady traffic an operation has
//   - source.go: the requests of steady traffic
package traffic
