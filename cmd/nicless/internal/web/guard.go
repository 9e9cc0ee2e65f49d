//go:build linux && (amd64 || arm64)

package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nicless/nicless/cmd/nicless/internal/conns"
)

// A guard says which requests are answered.
type guard struct {
	here  bool   // the address is a loopback address
	token string // "": none is needed
	next  http.Handler
}

// cookieOf returns the name of the cookie that keeps the token after the first visit. Browsers share cookies
// among all ports of a host, so the port that the browser knows is in the name.
func cookieOf(host string) string {
	_, port, err := net.SplitHostPort(host)
	if n, notNumber := strconv.ParseUint(port, 10, 16); err == nil && notNumber == nil {
		return fmt.Sprintf("nicless-token-%d", n)
	}
	return "nicless-token"
}

// policy lets a page load its own scripts and styles, ask this server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if g.here && !namesHere(r.Host) {
		refuse(w, r, "this server is for this host only: use 127.0.0.1 or localhost", http.StatusForbidden)
		return
	}
	if g.token != "" && !g.admitted(w, r) {
		return
	}
	if r.URL.Path != "/" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		refuse(w, r, "only the page of this server may ask for this", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !fromPage(r) {
		refuse(w, r, "only the page of this server may ask for this", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

// refuse answers a request that is not for this server. It may have a body that never comes: the answer does
// not wait for it, and while the server does, others can have the place of the connection.
func refuse(w http.ResponseWriter, r *http.Request, why string, status int) {
	conns.Release(r.Context())
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	http.Error(w, why, status)
}

// admitted reports whether a request has the token, in its cookie. The first one has it in its address: the
// answer puts it into the cookie, and leads to the address without it, so that it stays in no history.
func (g *guard) admitted(w http.ResponseWriter, r *http.Request) bool {
	if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet {
		if !g.right(given) {
			refuse(w, r, "the token is wrong: use the address that nicless web has printed", http.StatusUnauthorized)
			return false
		}
		http.SetCookie(w, &http.Cookie{Name: cookieOf(r.Host), Value: g.token, Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return false
	}
	if c, err := r.Cookie(cookieOf(r.Host)); err == nil && g.right(c.Value) {
		return true
	}
	refuse(w, r, "the token is missing or wrong: use the address that nicless web has printed",
		http.StatusUnauthorized)
	return false
}

// right compares in a time that tells nothing of the token, not even its length.
func (g *guard) right(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(g.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// fromPage reports whether a request comes from a page of this server. Browsers say so with each POST.
func fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") == "http://"+r.Host && (site == "" || site == "same-origin")
}

// namesHere reports whether a Host header names this host as one does who means it. A page elsewhere can let
// its own name mean 127.0.0.1 (DNS rebinding), and could read the answers then.
func namesHere(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && at.IsLoopback()
}
