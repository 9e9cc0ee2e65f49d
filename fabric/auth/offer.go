//go:build linux && (amd64 || arm64)

package auth

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// version is that of offers and of what follows from them.
const version = 1

const (
	offerSize = 8

	// MostPayload is how many bytes a carrier may add to its offer.
	MostPayload = 16 << 10

	flagEncrypt = 1 // payload is to be encrypted
	flagAES     = 2 // the processor has instructions for AES-GCM
)

// An offer is what one end says of itself in a handshake.
type offer struct {
	version byte
	encrypt bool
	aes     bool
	number  uint32 // by which the other end names the session
	payload []byte // of the carrier
}

func (o offer) append(b []byte) []byte {
	flags := byte(0)
	if o.encrypt {
		flags |= flagEncrypt
	}
	if o.aes {
		flags |= flagAES
	}
	b = append(b, o.version, flags, 0, 0)
	b = binary.BigEndian.AppendUint32(b, o.number)
	return append(b, o.payload...)
}

// parseOffer reads an offer. It ignores flags that it does not know, so that later versions can have more.
func parseOffer(b []byte) (o offer, err error) {
	if len(b) < offerSize {
		return o, fmt.Errorf("auth: an offer of %d bytes; %d are needed", len(b), offerSize)
	}
	return offer{version: b[0], encrypt: b[1]&flagEncrypt != 0, aes: b[1]&flagAES != 0,
		number: binary.BigEndian.Uint32(b[4:]), payload: b[offerSize:]}, nil
}

// A Verdict is what an end makes of the other end's key and offer. Its zero value accepts.
type Verdict byte

const (
	Accepted     Verdict = iota
	UnknownKey           // the key is not accepted from this address
	OtherVersion         // of offers
	OtherEncrypt         // one end encrypts and the other does not
	verdicts
)

var verdictWords = [verdicts]string{
	Accepted: "accepted", UnknownKey: "the key is not accepted from this address",
	OtherVersion: "the versions differ",
	OtherEncrypt: "one end has the option encrypt and the other has not; both ends must say the same",
}

// String returns the verdict in words.
func (v Verdict) String() string {
	if v < verdicts {
		return verdictWords[v]
	}
	return fmt.Sprintf("verdict %d, which this version does not know", byte(v))
}

// ErrRefused is wrapped by errors of handshakes that one end has refused. Another attempt is of no use before
// a file or an option changes.
var ErrRefused = errors.New("auth: refused")

// A Refusal says why a handshake was refused. It wraps ErrRefused.
type Refusal struct {
	Verdict Verdict
	ByPeer  bool      // the other end has refused
	Key     PublicKey // of the other end
	Reason  error     // the error of Peers.Check; nil if it was something else
}

func (r *Refusal) Error() string {
	by := "this engine refuses the peer's key "
	if r.ByPeer {
		by = "the peer, with key "
	}
	by += r.Key.Fingerprint()
	if r.ByPeer {
		by += ", refuses this engine"
	}
	if r.Reason != nil {
		return by + ": " + r.Reason.Error()
	}
	return by + ": " + r.Verdict.String()
}

func (r *Refusal) Unwrap() error { return ErrRefused }
