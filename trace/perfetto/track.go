package perfetto

import (
	"fmt"
	"math"

	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
)

// A place is what a track is for.
type place struct {
	kind   placeKind
	number uint64
}

type placeKind uint8

const (
	deviceTrack  placeKind = iota
	processTrack           // number is the process id
	clientTrack            // of a client without a process id
	queueTrack
	cqTrack
	portTrack
)

// mostTracks bounds the tracks that are known at a time. If there are more, all are described anew.
const mostTracks = 1 << 20

// track returns the track of a place, and describes it if it is new.
func (x *Writer) track(p place, parent uint64, name string) (uint64, error) {
	if id := x.tracks[p]; id != 0 {
		return id, nil
	}
	if x.tracks == nil || len(x.tracks) >= mostTracks {
		x.tracks = map[place]uint64{}
	}
	id := x.newID()
	x.tracks[p] = id
	d := message{}.uint(trackUUID, id)
	if parent != 0 {
		d = d.uint(trackParent, parent)
	}
	d = d.text(trackName, name)
	if p.kind == processTrack {
		d = d.sub(trackProcess, message{}.uint(processPID, p.number).text(processName, name))
	}
	return id, x.packet(message{}.sub(packetTrackDescriptor, d))
}

// newID returns a number that no track and no flow has.
func (x *Writer) newID() uint64 {
	x.ids++
	return x.ids
}

// lane describes a track for the WQEs of a queue pair.
func (x *Writer) lane(parent uint64) (uint64, error) {
	id := x.newID()
	d := message{}.uint(trackUUID, id).uint(trackParent, parent).text(trackName, "WQEs")
	return id, x.packet(message{}.sub(packetTrackDescriptor, d))
}

// device returns the track of events that are about nothing else.
func (x *Writer) device() (uint64, error) { return x.track(place{kind: deviceTrack}, 0, "device") }

// client returns the track of a client, which may be nil: of its process, if that is known.
func (x *Writer) client(c *objects.Client) (uint64, error) {
	switch {
	case c == nil:
		return x.device()
	case c.PID == 0 || c.PID > math.MaxInt32: // no process id
		name := fmt.Sprintf("client %d %s", c.Number, text.Plain(c.Program()))
		return x.track(place{clientTrack, uint64(c.Number)}, 0, name)
	}
	return x.track(place{processTrack, c.PID}, 0, text.Plain(c.Program()))
}

// queue returns the track of a queue pair.
func (x *Writer) queue(number uint32) (uint64, error) {
	p := place{queueTrack, uint64(number)}
	if id := x.tracks[p]; id != 0 {
		return id, nil
	}
	name := fmt.Sprintf("qp 0x%x", number)
	var c *objects.Client
	if q := x.table.Queue(number); q != nil {
		c = x.table.Client(q.Client)
		name += " " + q.Transport.String()
	}
	parent, err := x.client(c)
	if err != nil {
		return 0, err
	}
	return x.track(p, parent, name)
}

// cq returns the track of a completion queue, whose completion is of a queue pair.
func (x *Writer) cq(number, qp uint32) (uint64, error) {
	var c *objects.Client
	if q := x.table.Queue(qp); q != nil {
		c = x.table.Client(q.Client)
	}
	parent, err := x.client(c)
	if err != nil {
		return 0, err
	}
	return x.track(place{cqTrack, parent<<32 | uint64(number)}, parent, fmt.Sprintf("cq 0x%x", number))
}

// port returns the track of a port.
func (x *Writer) port(number uint32) (uint64, error) {
	return x.track(place{portTrack, uint64(number)}, 0, fmt.Sprintf("port %d", number))
}
