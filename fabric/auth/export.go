//go:build linux && (amd64 || arm64)

package auth

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Export returns keys of the session for another use than its Sealer and its Opener: one for what this end
// sends and one for what it receives; the other end gets the same two. Keys of different labels are
// independent of each other and of those of the session. A carrier whose packets are sealed by another
// process gives such keys to it.
func (s *Session) Export(label string) (send, receive [keySize]byte) {
	for _, k := range []struct{ from, to *[keySize]byte }{{&s.send, &send}, {&s.receive, &receive}} {
		b, err := hkdf.Expand(sha256.New, k.from[:], "nicless export "+label, keySize)
		if err != nil {
			panic(fmt.Sprintf("auth: export: %v", err)) // the length is far below the limit
		}
		copy(k.to[:], b)
	}
	return send, receive
}
