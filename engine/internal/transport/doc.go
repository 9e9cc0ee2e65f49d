// Package transport carries work requests between devices: it turns WQEs into packets of the
// InfiniBand transport (InfiniBand Architecture Specification, volume 1, chapter 9) and packets into
// requests.
//
// The rules of work requests are those of package execution, in the same functions: its requester checks a
// WQE, its responder checks the request. Within a device, the requester calls the responder; between devices,
// packets go from one to the other. A queue pair whose peer is on another device is on a wire (object.Wire).
// Packets go through ports, which carriers empty and fill.
//
// The layers are wires (timers; begin and end of a wire), receiver (requests of peers), sender (WQEs and
// their answers) and PortServer. Each layer embeds the one before it.
//
// # Files
//
//   - layers.go: the layers; decides nothing
//   - wire.go: how a queue pair comes onto a wire and leaves it; whether it has work; where going back begins
//   - port.go: whether a packet for QP 1 is taken; what a port says of its link
//   - serve.go: which ports a step serves, and which queue pair a packet is for
//   - fault.go: gives rings back after a fault of memory ended a batch
//   - receive.go: whether a packet of RC is taken: path, service, PSN; whether a NAK is sent for a gap, once
//     (takeRequest)
//
// This device sends requests:
//
//   - requester.go: which WQE becomes a message
//   - send.go: whether and which packets of a message are sent now, or again; their headers
//   - answers.go: what an ACK, a NAK or a result completes, fails, or requests again (once: requestAgain)
//   - looks.go: whether the answer may have come although it was not taken (excuses)
//   - timer.go: when no answer has come in time, how often that is tried again, and how long an RNR wait is
//
// A peer sends requests:
//
//   - responder.go: whether an expected request is executed: checks in the specification's order; for UC,
//     what a gap ends (serveUnreliable)
//   - arrival.go: what one packet carries through those checks; decides nothing
//   - message.go: whether a message of several packets goes on: its receive, and changed keys
//   - ack.go: builds ACKs and NAKs; whether one is sent is decided by receive, responder and reads
//   - reads.go: what a repeated request gets; when answers to READs and atomics, and a NAK after them, are
//     sent
//   - scan_guard.go: whether a packet is dropped because a stranger tries PSNs
//
// On ports that lose packets:
//
//   - agree.go: asks the other end of a path whether it understands reports, and answers
//   - lossy.go: probes a silent peer; takes reports; which packets are passed over because the peer has them
//   - early_answers.go: keeps answers that come too early, and takes them in order; requests again only those
//     that are missing
//   - resume.go: executes packets that were kept in later steps
//   - early.go: keeps packets that come too early, and executes them in order; sends reports
//   - trim.go: when memory for packets that came early is given back
//
// Both:
//
//   - fast.go: whether a WRITE or READ takes the fast path of links, as request or answer
//   - line.go: whether a received packet of one line takes the fast path
//   - line_send.go: how many WRITEs are sent as packets of one line
//   - lone_send.go: whether the only WQE that is announced is sent as such a packet, on a shorter way
//   - datagram.go: whether a UD datagram leaves the device, and by which path; whether one that comes is
//     taken
//   - inject.go: which answers are lost because of a rule of faults
//   - watched.go: records packets of watched queues
//
// While rules of faults act on packets of a queue pair:
//
//   - detour.go: by which detour packets come to the rules; what a rule does to a packet
//   - packet_facts.go: of which work request a packet is
//   - held.go: which packets wait, for how long, and how many at most
package transport
