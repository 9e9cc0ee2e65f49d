// Package auth authenticates engines to each other, and the packets between them.
//
// Terms: an identity is the X25519 private key of an engine, in a file. The peers of an engine are
// the public keys that it accepts, each from a prefix of addresses. A meeting, or handshake, is
// Noise_XX_25519_ChaChaPoly_SHA256: both ends prove that they have their keys, and get a session. A
// session has a key for each direction. A sealed message has a counter and a tag; the receiver
// accepts each counter once.
//
//	message 1   initiator -> responder   ephemeral key
//	message 2   responder -> initiator   ephemeral key, static key, offer
//	message 3   initiator -> responder   static key, offer
//	message 4   responder -> initiator   verdict, sealed with the key of the session
//
// An offer is 8 bytes and what the carrier adds: version, flags, two bytes 0, and the number by which
// the other end names this end of the session (4 bytes, big-endian). Static keys and offers
// are encrypted. The prologue of the handshake names the carrier and its version, so that messages of one
// carrier have no meaning for another.
//
// A sealed message is always authenticated, and also encrypted if both ends want that. The cipher is
// AES-256-GCM if both processors have instructions for it, and ChaCha20-Poly1305 otherwise. The nonce
// is four bytes 0 and the counter, little-endian. Counters begin with 1.
//
// # Files
//
//   - identity.go: whether the file of a private key is guarded well enough; keys as text
//   - peers.go: whether a key is accepted from an address (check), and whether a changed file is read
//   - pin.go: whether a key that is seen first is added to the file
//   - options.go: what --link says about keys, and whether it fits together
//   - offer.go: whether the bytes of an offer are right; the verdicts and their texts
//   - handshake.go: whether a message of a handshake is good, and whether the other end is accepted (check)
//   - session.go: which cipher and keys a session has, and which counters were used
//   - export.go: derives keys of a session for other uses
//   - report.go: what nicless links says of a key
//   - seal.go: whether a sealed message is good (Open); seals messages
//   - window.go: whether a counter has come before (isNew)
//   - cookie.go: whether an initiator receives at its address (Good)
//   - meet.go: carries a handshake over a stream; whether it succeeds: handshake.go
//
// Sources: The Noise Protocol Framework, revision 34. RFC 6479 (window). RFC 9147, section 5.1 (cookie).
package auth
