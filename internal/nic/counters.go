package nic

// A PortCount is one of the counts of what the clients of a port send and receive.
type PortCount uint8

// The counts. A message within the device counts as sent by one client and as received by the other, which
// can be the same. Packets are those of links; within the device, they are the packets into which the path
// MTU would cut the message, without acknowledgements. Bytes are bytes of payload.
const (
	SentPackets PortCount = iota
	SentBytes
	GotPackets
	GotBytes
	SentMulticast // packets, also counted in SentPackets
	GotMulticast  // packets, also counted in GotPackets

	GotWrites      // RDMA WRITEs taken by the responder
	GotReads       // READs
	GotAtomics     // atomics
	OutOfBuffer    // messages for which no receive was posted, each time that they came
	OutOfSequence  // packets with a later PSN than the expected one
	Duplicates     // requests received again
	RNRNaks        // RNR NAKs received, the last one of an exhausted retry too
	SequenceNaks   // NAKs for a missing packet received
	ImpliedNaks    // answers that show that an earlier answer is missing
	CNPs           // congestion notifications received
	AckTimeouts    // times that no answer came in time
	RespLength     // completions of receives with a local length error
	RespErrors     // completions of receives with an error, flushed ones too
	RespFlushed    // completions of receives that were flushed
	RespAccess     // requests refused because a key gives no access
	ReqErrors      // completions of sends with an error, flushed ones too
	ReqFlushed     // completions of sends that were flushed
	ReqInvalid     // completions of sends with a remote invalid request error
	ReqAccess      // completions of sends with a remote access error
	PortCountTypes // number of counts
)

// PortCounts are the counts of a port, or of one client.
type PortCounts [PortCountTypes]uint64

// Add adds other counts to n.
func (n *PortCounts) Add(more *PortCounts) {
	for i, v := range more {
		n[i] += v
	}
}

// A Tally is what one client sends and receives, as the engine counts it. Messages between queue pairs of the
// device are counted by opcode, at both ends, because that takes the fewest instructions. Package
// engine/internal/traffic makes PortCounts of it.
type Tally struct {
	N   PortCounts     // all else, and of messages that are counted by opcode the packets beyond the first
	Out [opcodes]Flows // messages within the device that the client's queue pairs have sent
	In  [opcodes]Flows // those that they have taken, or answered

	Written Flows // WRITEs of one packet that have come over links
}

// Flows are messages, and the bytes of their payload.
type Flows struct{ Messages, Bytes uint64 }

// opcodes is how many opcodes a Tally tells apart. Those of messages are below. Opcode 0 has no message.
const opcodes = 32

// OpcodeMask is for opcodes that index a Tally, so that they are known to be in its bounds.
const OpcodeMask = opcodes - 1

// Add adds another tally to t.
func (t *Tally) Add(more *Tally) {
	t.N.Add(&more.N)
	t.Written.Add(more.Written.Messages, more.Written.Bytes)
	for op := range more.Out {
		t.Out[op].Add(more.Out[op].Messages, more.Out[op].Bytes)
		t.In[op].Add(more.In[op].Messages, more.In[op].Bytes)
	}
}

// Add adds messages with so many bytes together.
func (f *Flows) Add(messages, bytes uint64) {
	f.Messages += messages
	f.Bytes += bytes
}

// Sent counts packets that were sent, whose payloads together have the given number of bytes.
func (n *PortCounts) Sent(packets, bytes int) {
	n[SentPackets] += uint64(packets)
	n[SentBytes] += uint64(bytes)
}

// Got counts a packet that was received, with a payload of the given number of bytes.
func (n *PortCounts) Got(bytes int) {
	n[GotPackets]++
	n[GotBytes] += uint64(bytes)
}
