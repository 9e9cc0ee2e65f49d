package perfetto

import "encoding/binary"

// Types of fields in the binary form of protobuf.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
)

// A message is a protobuf message in its binary form.
type message []byte

func (m message) key(field, kind int) message {
	return binary.AppendUvarint(m, uint64(field)<<3|uint64(kind))
}

func (m message) uint(field int, v uint64) message {
	return binary.AppendUvarint(m.key(field, varint), v)
}

func (m message) fixed(field int, v uint64) message {
	return binary.LittleEndian.AppendUint64(m.key(field, fixed64), v)
}

func (m message) text(field int, s string) message {
	return append(binary.AppendUvarint(m.key(field, bytes), uint64(len(s))), s...)
}

func (m message) sub(field int, sub message) message {
	return append(binary.AppendUvarint(m.key(field, bytes), uint64(len(sub))), sub...)
}

// Numbers of fields. The names are those of the messages in Perfetto's tree.
const (
	tracePacket = 1 // Trace.packet

	packetClockSnapshot   = 6 // TracePacket
	packetTimestamp       = 8
	packetSequence        = 10 // trusted_packet_sequence_id
	packetTrackEvent      = 11
	packetSequenceFlags   = 13
	packetTrackDescriptor = 60

	snapshotClocks = 1 // ClockSnapshot
	clockID        = 1 // ClockSnapshot.Clock
	clockTimestamp = 2

	trackUUID    = 1 // TrackDescriptor
	trackName    = 2
	trackProcess = 3
	trackParent  = 5

	processPID  = 1 // ProcessDescriptor
	processName = 6

	eventAnnotations = 4 // TrackEvent
	eventType        = 9
	eventTrack       = 11
	eventCategories  = 22
	eventName        = 23
	eventFlows       = 47

	annotationUint = 3 // DebugAnnotation
	annotationText = 6
	annotationName = 10
)

const (
	sliceBegin = 1 // TrackEvent.Type
	sliceEnd   = 2
	instant    = 3

	clockRealtime = 1 // BuiltinClock
	clockBoottime = 6 // the clock of times that name none

	// All packets are of one sequence, whose state begins with the first packet.
	sequence     = 1
	stateCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
)

// An annotation is a value that the viewer shows with an event: a text, or a number if there is no text.
type annotation struct {
	name   string
	text   string
	number uint64
}

// An event is a TrackEvent.
type event struct {
	kind        uint64
	track       uint64
	category    string
	name        string
	flows       []uint64
	annotations []annotation
}

func (e *event) message() message {
	m := message{}.uint(eventType, e.kind).uint(eventTrack, e.track)
	if e.category != "" {
		m = m.text(eventCategories, e.category)
	}
	if e.name != "" {
		m = m.text(eventName, e.name)
	}
	for _, f := range e.flows {
		m = m.fixed(eventFlows, f)
	}
	for _, a := range e.annotations {
		v := message{}.text(annotationName, a.name)
		if a.text != "" {
			v = v.text(annotationText, a.text)
		} else {
			v = v.uint(annotationUint, a.number)
		}
		m = m.sub(eventAnnotations, v)
	}
	return m
}
