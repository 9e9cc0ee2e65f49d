//go:build linux && (amd64 || arm64)

package ucx

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"golang.org/x/crypto/chacha20poly1305"
)

// carrierName is what handshakes of this carrier name.
var carrierName = fmt.Sprintf("nicless ucx %d", protocol)

const (
	// mostPackets is how many packets one way a connection carries before its keys are renewed, long before
	// they are used up (MOST_SEALED of carrier/seal.h).
	mostPackets = 1 << 31

	// keyTime is how long keys are used.
	keyTime = time.Hour

	// overlap is how long a connection with old keys stays for what is on its way, when there is a new one.
	overlap = time.Second
)

// keyed has the keys of the process for a connection.
type keyed struct {
	send, receive [keySize]byte
	cipher        byte
	encrypt       bool
}

// keys puts the keys of the process into an opening.
func (w *wire) keys(o *opening) {
	o.keyOut, o.keyIn, o.cipher, o.encrypt = w.keyed.send, w.keyed.receive, w.keyed.cipher, w.keyed.encrypt
}

// keysWord returns the argument by which the process learns whether there will be keys.
func (c *Carrier) keysWord() string {
	if c.party != nil {
		return "1"
	}
	return "0"
}

// flags returns what this engine says of keys to an engine at an address.
func (c *Carrier) flags(to netip.Addr) (flags byte) {
	if c.party == nil {
		return 0
	}
	flags = flagKeys
	if c.party.Required || c.party.Peers.Covers(to) {
		flags |= flagRequired
	}
	return flags
}

// keysOf returns what nicless links says of a peer's key. report is what it says of the key of the peer's
// connection, or "" if the connection has no keys. c.mu is held.
func (c *Carrier) keysOf(up bool, report string) string {
	switch {
	case c.party == nil:
		return ""
	case !up:
		return auth.ReportNone
	case report == "":
		return auth.ReportPlain
	}
	return report
}

// handshake authenticates the other engine if both have keys, and returns the wire to it. theirs and mine are
// the preambles. An error wraps errKeys if it is about keys.
func (c *Carrier) handshake(
	conn *net.TCPConn, from netip.Addr, theirs, mine preamble, initiator bool, until time.Time,
) (*wire, error) {
	w := &wire{conn: conn, remote: from, who: from.String(), read: bufio.NewReaderSize(conn, 4096)}
	if mine.flags&theirs.flags&flagKeys == 0 {
		switch {
		case theirs.flags&flagRequired != 0:
			return nil, fmt.Errorf("%w: the other engine requires keys, and this link has none (key=FILE)", errKeys)
		case mine.flags&flagRequired != 0:
			return nil, fmt.Errorf("%w: the other engine has none, and this link requires them", errKeys)
		}
		return w, nil
	}
	s, _, err := c.party.Meet(conn, carrierName, initiator, nil, time.Until(until))
	if err != nil {
		if errors.Is(err, auth.ErrRefused) {
			return nil, fmt.Errorf("%w: %w", errKeys, err)
		}
		return nil, err
	}
	_ = conn.SetDeadline(until)
	w.key = s.Remote.String()
	w.who, w.report = w.key, s.Report(time.Now())
	send, receive := s.Export("ucx meeting")
	w.sealer, err = chacha20poly1305.New(send[:])
	if err == nil {
		w.opener, err = chacha20poly1305.New(receive[:])
	}
	w.keyed.send, w.keyed.receive = s.Export("ucx packets")
	w.keyed.encrypt, w.keyed.cipher = s.Encrypted, cipherChaCha
	if s.Cipher == "AES-256-GCM" {
		w.keyed.cipher = cipherAES
	}
	return w, err
}

// renew requests a new connection in place of one whose keys are old. The side that has connected does it.
func (c *Carrier) renew(k *conn) {
	if k.target != nil && !k.renewed && k.wire.key != "" && k.target.conn == k.number {
		k.renewed = true
		k.target.attemptNow()
	}
}

// age renews the keys of a connection that is up, when they are old; and ends the connection whose keys it
// renews, when no packet is on its way there any more. c.mu is held.
func (c *Carrier) age(k *conn) {
	if k.target == nil || k.wire.key == "" {
		return
	}
	time.AfterFunc(c.keyTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.conns[k.number] == k {
			c.renew(k)
		}
	})
	for _, o := range c.conns {
		if o.target == k.target && o.renewed {
			time.AfterFunc(c.overlap, func() { _ = c.hangUp(o, "there is a connection with new keys") })
		}
	}
}

// notRenewed notes that keys could not be renewed: it is tried again, as long as the old connection is there.
func (c *Carrier) notRenewed(t *target, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.Warn("the keys of a connection are not renewed; it is tried again", "peer", t.to, "why", why, "within", time.Minute)
	for _, o := range c.conns {
		if o.target == t && o.renewed {
			t.conn, o.renewed = o.number, false
			time.AfterFunc(min(time.Minute, c.keyTime), func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.renew(o)
			})
		}
	}
}
