//go:build linux && (amd64 || arm64)

package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"

	"github.com/flynn/noise"
)

// suite is that of the handshake. It has three short messages to encrypt, so a cipher that is fast
// on all processors suffices. Session keys are for the cipher that the offers lead to.
var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashSHA256)

// Lengths of handshake messages without what a carrier adds to its offer.
const (
	Message1Size = keySize
	Message2Size = keySize + keySize + TagSize + offerSize + TagSize
	Message3Size = keySize + TagSize + offerSize + TagSize
)

// A Party is one end of handshakes: a configuration, which many handshakes use. Its methods are safe
// for concurrent use.
type Party struct {
	Identity *Identity
	Peers    *Peers
	Required bool // packets that are not authenticated are dropped; if false, see [Peers.Covers]
	Encrypt  bool // what is sealed is also encrypted

	noAES bool // as if the processor had no instructions for AES; for tests
}

// A Handshake is one end of a handshake. Write and Read take turns: the initiator begins with Write, the
// responder with Read. After three messages there is a [Session]. One goroutine uses it.
type Handshake struct {
	party     *Party
	state     *noise.HandshakeState
	initiator bool
	from      netip.Addr // address of the other end
	own       offer      // the offer of this end
	theirs    offer      // the offer of the other end
	refusal   *Refusal   // why this end refuses the other; nil: it does not
	session   *Session
	next      int  // number of the next message, 1 to 4
	over      bool // a message was wrong, and the handshake cannot go on
}

// Handshake returns one end of a handshake with an engine at an address. carrier names the carrier and the
// version of its format, such as "nicless roce 1". The other end will name this session by number. payload
// has at most MostPayload bytes. It is sent encrypted, before this end knows whether it accepts the other
// end.
func (p *Party) Handshake(
	carrier string, initiator bool, from netip.Addr, number uint32, payload []byte,
) (*Handshake, error) {
	if len(payload) > MostPayload {
		return nil, fmt.Errorf("auth: a payload of %d bytes; at most %d are possible", len(payload), MostPayload)
	}
	state, err := noise.NewHandshakeState(noise.Config{
		CipherSuite: suite, Random: rand.Reader, Pattern: noise.HandshakeXX, Initiator: initiator,
		Prologue: []byte(carrier), StaticKeypair: p.Identity.pair,
	})
	if err != nil {
		return nil, fmt.Errorf("auth: begin a handshake: %w", err)
	}
	own := offer{
		version: version, encrypt: p.Encrypt, aes: hasAES && !p.noAES, number: number, payload: payload,
	}
	from = from.Unmap().WithZone("")
	return &Handshake{party: p, state: state, initiator: initiator, from: from, own: own, next: 1}, nil
}

var (
	errTurn  = errors.New("auth: it is the other end's turn")
	errOver  = errors.New("auth: the handshake is over, because a message was wrong")
	errShort = errors.New("auth: a handshake message is too short")
)

// Write returns the next message of this end.
func (h *Handshake) Write() ([]byte, error) {
	if h.session != nil || h.initiator != (h.next%2 == 1) {
		return nil, errTurn
	}
	var payload []byte
	if h.next > 1 {
		payload = h.own.append(nil)
	}
	b, c1, c2, err := h.state.WriteMessage(nil, payload)
	if err != nil {
		return nil, fmt.Errorf("auth: handshake message %d: %w", h.next, err)
	}
	h.next++
	return b, h.split(c1, c2)
}

// Read reads the next message of the other end. An error that does not wrap [ErrRefused] says that the
// message is not of this handshake. After a wrong message 2, another message 2 may be read. A wrong message
// 1 or 3 ends the handshake: the library's state has changed, and only a new handshake helps.
//
// If an initiator gets ErrRefused from reading message 2, it writes message 3 unless the Verdict is
// UnknownKey: a stranger gets no information about the initiator, but a peer with other options learns that
// they differ. If a responder gets ErrRefused from reading message 3, the session serves only to seal the
// verdict.
func (h *Handshake) Read(b []byte) error {
	switch {
	case h.over:
		return errOver
	case h.session != nil || h.initiator == (h.next%2 == 1):
		return errTurn
	}
	// The library would change its state even for a message that is too short, or a message 1 that is no key.
	least := [...]int{Message1Size, Message2Size, Message3Size}[h.next-1]
	if len(b) < least || h.next == 1 && len(b) != least {
		return errShort
	}
	payload, c1, c2, err := h.state.ReadMessage(nil, b)
	if err != nil {
		h.over = h.next != 2
		return fmt.Errorf("auth: handshake message %d: %w", h.next, err)
	}
	h.next++
	if h.next == 2 {
		return nil
	}
	h.theirs, err = parseOffer(payload)
	if err != nil {
		return err
	}
	if err := h.split(c1, c2); err != nil {
		return err
	}
	return h.check()
}

// check decides whether this end accepts the key and the offer of the other end. The error wraps ErrRefused.
func (h *Handshake) check() error {
	r := &Refusal{Key: PublicKey(h.state.PeerStatic())}
	r.Reason = h.party.Peers.Check(h.from, r.Key)
	switch {
	case r.Reason != nil:
		r.Verdict = UnknownKey
	case h.theirs.version != version:
		r.Verdict = OtherVersion
	case h.theirs.encrypt != h.own.encrypt:
		r.Verdict = OtherEncrypt
	default:
		return nil
	}
	h.refusal = r
	return r
}

// Verdict returns what this end has decided.
func (h *Handshake) Verdict() Verdict {
	if h.refusal != nil {
		return h.refusal.Verdict
	}
	return Accepted
}

// split makes the session after message 3. Before, c1 is nil and it does nothing.
func (h *Handshake) split(c1, c2 *noise.CipherState) error {
	if c1 == nil {
		return nil
	}
	send, receive := c1, c2
	if !h.initiator {
		send, receive = c2, c1
	}
	var err error
	h.session, err = newSession(send.UnsafeKey(), receive.UnsafeKey(), h.own, h.theirs)
	if err != nil {
		return err
	}
	h.session.Remote = PublicKey(h.state.PeerStatic())
	h.session.Initiator = h.initiator
	return nil
}

// Session returns the session; nil before message 3. An initiator may send in it only after it has
// opened something sealed of the other end: before, the other end may not have got message 3.
func (h *Handshake) Session() *Session { return h.session }

// Payload returns what the other end's carrier has added to its offer; nil before the offer has come.
func (h *Handshake) Payload() []byte { return h.theirs.payload }
