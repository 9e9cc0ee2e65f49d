//go:build linux && (amd64 || arm64)

package ucx

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Kinds of frames of a meeting.
const (
	frameOffer = 1
	frameHello = 2 // the hello has changed
	frameBye   = 3 // a text: why the connection ends, or is refused

	maxFrame = 1 + maxOffer + 16 // kind and tag beside the longest body
	maxBye   = 300
)

const (
	// meetingTime is how long a meeting may take, from the first byte to the offers. Over the slowest path
	// of a rack and a busy machine it takes milliseconds; a stranger holds a place for so long.
	meetingTime = 3 * time.Second

	// leaveTime is how long an engine that leaves waits until its peers have received it.
	leaveTime = 100 * time.Millisecond

	// writeTime is how long a peer may take no bytes of a frame.
	writeTime = 2 * time.Second
)

// A wire is the TCP connection over which two engines have met. It lives as long as their connection over
// UCX does, and brings each the changes at the other, and the news that the other has gone.
type wire struct {
	conn   net.Conn
	remote netip.Addr
	who    string // whom to blame: the key, or the address
	key    string // that the other engine has proved to have; "": none
	keyed  keyed  // keys of the process
	report string // of the key, as nicless links says it; "": no key was requested

	read   io.Reader
	opener cipher.AEAD // nil: frames are not sealed
	got    uint64      // frames

	mu     sync.Mutex
	sealer cipher.AEAD
	sent   uint64
	closed bool
	left   bool // this engine has said that it leaves
}

// source returns what counts as one source of connections: a key, or without keys what strangers counts.
func (w *wire) source() string {
	if w.key != "" {
		return w.key
	}
	return sourceOf(w.remote).String()
}

// nonce returns the nonce of a frame.
func nonce(n uint64) []byte { return be.AppendUint64(make([]byte, 4, 12), n) }

// send sends a frame: length:16 | kind:8 | body; with keys, kind and body are encrypted, and a tag follows.
// After leave it sends nothing, and returns nil.
func (w *wire) send(kind byte, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return net.ErrClosed
	case w.left:
		return nil // the peer needs no more
	}
	return w.put(kind, body, time.Now().Add(writeTime))
}

func (w *wire) put(kind byte, body []byte, deadline time.Time) error {
	plain := append([]byte{kind}, body...)
	if w.sealer != nil {
		w.sent++
		plain = w.sealer.Seal(nil, nonce(w.sent), plain, nil)
	}
	_ = w.conn.SetWriteDeadline(deadline)
	_, err := w.conn.Write(append(be.AppendUint16(nil, uint16(len(plain))), plain...))
	return err
}

// bye says why the wire ends, if the peer takes it at once, and closes it.
func (w *wire) bye(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		_ = w.put(frameBye, []byte(why)[:min(len(why), maxBye)], time.Now().Add(50*time.Millisecond))
		_ = w.conn.Close()
	}
}

// leave says that this engine leaves. The peer closes the wire when it has received it.
func (w *wire) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.left = true
		_ = w.put(frameBye, nil, time.Now().Add(leaveTime/2))
		if tcp, ok := w.conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
}

var errForged = errors.New("a frame whose tag is wrong")

// receive receives a frame. most is the greatest length of its body.
func (w *wire) receive(most int) (kind byte, body []byte, err error) {
	var length [2]byte
	if _, err := io.ReadFull(w.read, length[:]); err != nil {
		return 0, nil, err
	}
	n, overhead := int(be.Uint16(length[:])), 1
	if w.opener != nil {
		overhead += w.opener.Overhead()
	}
	if n < overhead || n > overhead+max(most, maxBye) {
		return 0, nil, fmt.Errorf("a frame of %d bytes; %d to %d are possible here", n, overhead, overhead+most)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(w.read, b); err != nil {
		return 0, nil, err
	}
	if w.opener != nil {
		w.got++
		if b, err = w.opener.Open(b[:0], nonce(w.got), b, nil); err != nil {
			return 0, nil, errForged
		}
	}
	return b[0], b[1:], nil
}

// readOffer receives the other engine's offer.
func (w *wire) readOffer() (o offer, err error) {
	kind, body, err := w.receive(maxOffer)
	switch {
	case err != nil:
		return o, err
	case kind == frameBye:
		return o, errors.New(closeReason(body))
	case kind != frameOffer:
		return o, fmt.Errorf("a frame of kind %d in place of an offer", kind)
	}
	return parseOffer(body)
}

// closeReason returns why a peer has closed a wire.
func closeReason(body []byte) string {
	if len(body) == 0 {
		return "the peer has closed the link"
	}
	return "the peer says: " + text(body[:min(len(body), maxBye)])
}
