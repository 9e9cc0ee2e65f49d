// Package transport carries work requests between devices: it turns WQEs into packets of the
// InfiniBand transport (InfiniBand Architecture Specification, volume 1, chapter 9) and packets into
// requests.
//
// The rules of work requests are those of package execution, in the same functions: its requester checks a
// WQE, its responder checks the request. Between the two are packets in place of a call. A queue pair whose
// peer is on another device is on a wire (object.Wire). Packets go through ports, which carriers empty and
// fill.
//
// The layers, each inside the next, are wires (timers, begin and end), receiver (requests of peers), sender
// (WQEs and their answers) and PortServer.
//
// # Files
//
//   - layers.go, wire.go: the layers; how a queue pair comes onto a wire and leaves it; visits
//   - port.go, serve.go, fault.go: ports; a step takes packets from them; rings that lose their memory
//   - requests.go, send.go: WQEs become messages, and these packets
//   - answers.go, timer.go: answers; no answer in time
//   - receive.go: a packet comes: its queue pair, and its place in the sequence
//   - arrival.go, request.go, message.go: a request that is expected; its checks; messages of several packets
//   - ack.go, reads.go: acknowledgements and NAKs; answers to READs and atomics
//   - guard.go: packets of a stranger who tries PSNs
//   - fast.go, line.go, line_send.go: short WRITEs and READs; packets of one line
//   - datagram.go: datagrams, each of which has a path of its own
package transport
