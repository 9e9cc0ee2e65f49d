//go:build linux && (amd64 || arm64)

package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"time"
)

const (
	// CookieSize is how many bytes a cookie has: 4 of time, 12 of an HMAC.
	CookieSize = 16

	// CookieLife is how long a cookie is good for at least. It is longer than a handshake, and short
	// enough that an address that changes hands does not matter.
	CookieLife = 2 * time.Minute
)

// Cookies makes and checks cookies: proof that an initiator receives at its address. They are made of
// a secret, the address and the time, so no state is kept for each address. One goroutine uses it.
type Cookies struct {
	mac   hash.Hash
	since time.Time
	sum   [sha256.Size]byte
	text  [4 + 16 + 4]byte
}

// NewCookies returns Cookies with a secret of their own. since is the time from which they count.
func NewCookies(since time.Time) *Cookies {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails (Go 1.24)
	return &Cookies{mac: hmac.New(sha256.New, secret[:]), since: since}
}

// Make returns the cookie of an address at a time. where distinguishes local addresses.
func (c *Cookies) Make(where uint32, a netip.Addr, now time.Time) (cookie [CookieSize]byte) {
	binary.BigEndian.PutUint32(cookie[:], uint32(now.Sub(c.since)/time.Second))
	copy(cookie[4:], c.tag(where, a, cookie[:4]))
	return cookie
}

// Good reports whether Make has returned the cookie for this address at most CookieLife ago.
func (c *Cookies) Good(where uint32, a netip.Addr, cookie []byte, now time.Time) bool {
	if len(cookie) != CookieSize {
		return false
	}
	age := int64(now.Sub(c.since)/time.Second) - int64(binary.BigEndian.Uint32(cookie))
	return age >= 0 && age <= int64(CookieLife/time.Second) &&
		hmac.Equal(cookie[4:], c.tag(where, a, cookie[:4]))
}

func (c *Cookies) tag(where uint32, a netip.Addr, seconds []byte) []byte {
	binary.BigEndian.PutUint32(c.text[:], where)
	sixteen := a.As16()
	copy(c.text[4:], sixteen[:])
	copy(c.text[20:], seconds)
	c.mac.Reset()
	c.mac.Write(c.text[:])
	return c.mac.Sum(c.sum[:0])[:CookieSize-4]
}
