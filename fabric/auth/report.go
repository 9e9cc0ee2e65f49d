//go:build linux && (amd64 || arm64)

package auth

import (
	"fmt"
	"time"
)

// The words of nicless links about a peer, on a link with keys, with which there is no session.
const (
	ReportNone  = "none yet"
	ReportPlain = "not authenticated (auth=offered)"
)

// Report returns what nicless links says of a peer with which there is this session since a time: how it is
// protected, and the fingerprint of the peer's key.
func (s *Session) Report(since time.Time) string {
	how := "authenticated"
	if s.Encrypted {
		how = "encrypted"
	}
	return fmt.Sprintf("%s with key %s (%s) since %s", how, s.Remote.Fingerprint(), s.Cipher, since.UTC().Format(time.RFC3339))
}
