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
//	identity.go   private and public keys, and the file of an identity
//	peers.go      the keys that are accepted; pin.go adds one that is seen first
//	options.go    what --link says about keys
//	offer.go      the offer and the verdict
//	handshake.go  the four messages
//	session.go    the result of a handshake; export.go derives keys for other uses
//	report.go     what nicless links says of it
//	seal.go       sealing and opening messages; window.go keeps counters that have come
//	cookie.go     proof that an initiator receives at its address
//	meet.go       a handshake over a stream
//
// Sources: The Noise Protocol Framework, revision 34. RFC 6479 (window). RFC 9147, section 5.1 (cookie).
package auth
