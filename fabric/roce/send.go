//go:build linux && (amd64 || arm64)

package roce

import (
	"time"

	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	sendBatch   = 128
	maxSegments = 64    // datagrams that the kernel makes of one message; 128 from Linux 6.9 on
	maxMessage  = 65000 // bytes of a message: less than an IP packet holds, with all headers
	batchFull   = 2     // full messages in a batch: what comes back waits while a batch is sent
)

// A sender takes packets from the engine's ring and sends them. One goroutine uses it.
//
// It works in batches: it takes the packets that are in the ring, at most sendBatch, makes
// messages of them, and sends the messages. A message is one datagram, or several of one path
// that the kernel cuts apart. Payloads stay in the ring until the whole batch was sent.
type sender struct {
	c       *Carrier
	ring    *packetring.Consumer
	corrupt bool      // the ring cannot be used any more
	now     time.Time // when the batch was taken from the ring

	packets [sendBatch]outgoing
	n       int  // how many packets the batch has
	single  bool // each message of this batch is one datagram
	uncut   uncut

	messages [sendBatch]mmsg.Message
	runs     [sendBatch]run // the packets of each message
	made, at int            // how many messages were made, and how many of them are done
	control  [sendBatch][3 * mmsg.ControlInt]byte
	vectors  [sendBatch * vectorsEach]unix.Iovec
	buffers  []byte // bufferEach bytes for each packet
	counts   sendCounts
}

// An outgoing is a packet of the batch.
type outgoing struct {
	packetring.Packet
	wire int // bytes from the BTH to the ICRC
	tail [8]byte
}

// A run is the packets of a message.
type run struct {
	path     *path
	with     *session // the session in which they are sent; nil: without tags
	first, n int      // the first packet's place in the batch, and how many packets there are
	bytes    int      // on the wire
}

func newSender(c *Carrier, ring *packetring.Consumer) *sender {
	return &sender{c: c, ring: ring, buffers: make([]byte, sendBatch*bufferEach)}
}

// ready reports whether the ring has packets.
func (s *sender) ready() bool { return !s.corrupt && s.ring.Ready() }

// step sends a batch of packets, or the rest of one. did is how many packets are done with.
// blocked is true if the socket's buffer is full: then step is called again later.
func (s *sender) step() (did int, blocked bool) {
	if s.n == 0 {
		s.take()
		if s.n == 0 {
			return 0, false
		}
		s.now = time.Now()
		s.single, s.uncut = false, uncut{}
		s.make(0)
	}
	if !s.flush() {
		return 0, true
	}
	s.ring.Free()
	did, s.n = s.n, 0
	return did, false
}

// take takes packets from the ring. If they are of one path and length, the batch ends with a full message,
// because a message costs the kernel at both ends as much as some packets do, however short it is.
func (s *sender) take() {
	packets, bytes := 0, 0 // of the message that is not full yet
	full := 0              // how many messages are full
	for s.n < sendBatch && full < batchFull && !s.corrupt {
		p := &s.packets[s.n]
		ok, err := s.ring.Next(&p.Packet)
		if err != nil {
			s.corrupt = true
			s.c.log.Error("the engine's ring cannot be used any more", "error", err)
			return
		}
		if !ok {
			return
		}
		if p.N < packet.BTHSize || len(p.Payload) > maxMTU {
			s.counts.impossible.Add(1)
			continue
		}
		p.measure(nil)
		packets, bytes = packets+1, bytes+p.wire
		if packets == maxSegments || bytes+p.wire > maxMessage {
			packets, bytes, full = 0, 0, full+1
		}
		s.n++
	}
}

// make makes messages of the packets of the batch, from one packet on.
func (s *sender) make(from int) {
	s.made, s.at = 0, 0
	for i := from; i < s.n; {
		p := s.c.paths.find(s.packets[i].Path)
		if p == nil {
			s.counts.noPath.Add(1)
			i++
			continue
		}
		if p.closedNow(s.now) {
			s.counts.noWay.Add(1)
			i++
			continue
		}
		with, ok := s.sessionOrHold(p, i)
		if !ok {
			i++
			continue
		}
		r := s.extend(p, i, with)
		s.message(r)
		i += r.n
	}
}

// extend returns the longest run from packet i on that can be one message: the packets are of one path and
// have the same length, except that the last may be shorter.
func (s *sender) extend(p *path, i int, with *session) run {
	first := &s.packets[i]
	first.measure(with)
	r := run{path: p, with: with, first: i, n: 1, bytes: first.wire}
	if s.single || !p.from.segment.Load() {
		return r
	}
	for k := i + 1; k < s.n && r.n < maxSegments; k++ {
		next := &s.packets[k]
		if next.Path != first.Path {
			break
		}
		next.measure(with)
		if next.wire > first.wire || r.bytes+next.wire > maxMessage {
			break
		}
		r.n++
		r.bytes += next.wire
		if next.wire < first.wire {
			break
		}
	}
	return r
}

// message makes the next message.
func (s *sender) message(r run) {
	p := r.path
	h := &s.messages[s.made].Header
	control := append(s.control[s.made][:0], p.control[:p.options]...)
	if r.n > 1 {
		control = mmsg.AppendInt(control, unix.IPPROTO_UDP, udpSegment, 2, uint32(s.packets[r.first].wire))
	}
	vectors := 0
	v := s.vectors[r.first*vectorsEach:]
	flow := p.send
	for i := range r.n {
		// The kernel gives segment i the identification i, and a single datagram 0.
		if r.with == nil {
			vectors += s.seal(v[vectors:], r.first+i, flow, uint16(i))
		} else {
			vectors += s.sealAuth(v[vectors:], r.first+i, r.with)
		}
	}
	h.Name, h.Namelen = &p.name[0], p.nameLen
	h.Iov, h.Iovlen = &v[0], uint64(vectors)
	h.Control, h.Controllen = nil, uint64(len(control))
	if len(control) > 0 {
		h.Control = &control[0]
	}
	s.runs[s.made] = r
	s.made++
}

// flush sends the messages that were made and not sent yet. It returns false if it must be
// called again later.
func (s *sender) flush() bool {
	for s.at < s.made {
		p := s.runs[s.at].path
		end := s.at + 1
		for end < s.made && s.runs[end].path.from == p.from && s.runs[end].path.socket == p.socket {
			end++
		}
		n, errno := p.from.send(p.socket, s.messages[s.at:end])
		s.counts.calls.Add(1)
		if errno != 0 {
			if errno == unix.EAGAIN {
				s.counts.waits.Add(1)
				return false
			}
			s.trouble(errno)
			continue
		}
		s.sent(n)
	}
	return true
}

// send sends messages from one of the sockets of a local address. The error is EBADF if they
// are closed.
func (l *local) send(socket int, m []mmsg.Message) (int, unix.Errno) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.closed {
		return 0, unix.EBADF
	}
	return mmsg.Send(l.senders[socket].fd, m)
}

// sent counts the next n messages, which were sent.
func (s *sender) sent(n int) {
	if l := s.uncut.from; l != nil && s.runs[s.at].path.from == l {
		s.refused(l, s.uncut.errno)
	}
	var packets, bytes, segmented int
	for _, r := range s.runs[s.at:][:n] {
		packets += r.n
		bytes += r.bytes
		if r.n > 1 {
			segmented += r.n
		}
		r.path.sent.Add(uint64(r.n))
		if r.with != nil {
			r.with.remote.sent.Add(uint64(r.n))
		}
		r.path.works(s.c)
	}
	s.at += n
	s.counts.messages.Add(uint64(n))
	s.counts.packets.Add(uint64(packets))
	s.counts.bytes.Add(uint64(bytes))
	s.counts.segmented.Add(uint64(segmented))
}
