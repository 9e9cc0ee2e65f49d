// Package linepacket is the format of packets that fit into one cache line of a ring: WRITEs of a few bytes,
// requests of READs, and acknowledgements. Their sender makes them in registers and stores them in the ring,
// and their receiver reads them from the ring into registers; see packetring.Producer.PublishLine and
// packetring.Consumer.Peek.
//
// The package knows where in the line a header is, and nothing of queue pairs: package transport decides
// which packets are sent and taken.
package linepacket
