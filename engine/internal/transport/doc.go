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
//   - layers.go, wire.go: the layers; how a queue pair comes onto a wire and leaves it; visits; going back
//   - port.go, serve.go, fault.go: ports; a step takes packets from ports; rings that lose their memory
//   - receive.go: a packet that has come: who may send it, whether it has the expected PSN
//
// This device sends requests:
//
//   - requester.go, send.go: WQEs become messages; messages become packets, and are sent again
//   - answers.go, timer.go: ACKs, NAKs and results that come; retries when none comes in time, and RNR waits
//
// A peer sends requests:
//
//   - responder.go, arrival.go, message.go: the checks of a request that is expected, in the specification's
//     order, and its execution; a packet on its way through the checks; messages of several packets
//   - ack.go, reads.go: ACKs and NAKs that are sent; answers to READs and atomics
//   - scan_guard.go: a stranger tries PSNs; packets are dropped during the alarm
//
// Both:
//
//   - fast.go, line.go, line_send.go: the fast path for short WRITEs and READs; packets of one line of a ring
//   - datagram.go: datagrams of UD, each of which has a path of its own
package transport
