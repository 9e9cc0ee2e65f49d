// Package transport carries work requests between devices: it turns WQEs into packets of the
// InfiniBand transport (InfiniBand Architecture Specification, volume 1, chapter 9) and packets into requests.
//
// The rules of work requests are those of package execution, in the same functions: its requester judges a WQE,
// its responder judges the request. Between the two are packets in place of a call. A queue pair whose peer
// is on another device is on a wire (object.Wire). Packets go through ports, which carriers empty and fill.
//
// The layers, each inside the next, are wires (timers, begin and end), receiver (requests of peers), sender
// (WQEs and their answers) and PortServer.
//
// # Files
//
//   - wire.go: how a queue pair comes onto a wire and leaves it; visits
//   - port.go, serve.go, fault.go: ports; a step takes packets from them; rings that lose their memory
//   - requests.go, send.go: WQEs become messages, and these packets
//   - answers.go, timer.go: answers; no answer in time
//   - receive.go: a packet comes: whose, and where in the sequence
//   - request.go, message.go, reads.go: the checks of a request; messages of several packets; answers
//   - guard.go: packets of somebody who tries PSNs
//   - fast.go, line.go: short WRITEs and READs; packets of one line
//   - datagram.go: datagrams, each of which has a path of its own
package transport
