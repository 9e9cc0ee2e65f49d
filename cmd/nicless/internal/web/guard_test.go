//go:build linux && (amd64 || arm64)

package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// ask asks a server whose engine does not exist; if here, as it serves a loopback address.
func ask(o Options, here bool, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader("IBV_WC_RNR_RETRY_EXC_ERR"))
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	New(o).handler(here).ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	w := ask(Options{}, true, "GET", "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "<title>nicless</title>")
	p := w.Header().Get("Content-Security-Policy")
	for _, d := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		require.Contains(t, p, d)
	}
	require.NotContains(t, p, "unsafe")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
	require.Equal(t, http.StatusNotFound, ask(Options{}, true, "GET", "/none.js").Code)
}

func TestHost(t *testing.T) {
	for host, want := range map[string]int{"127.0.0.1:1": 200, "localhost:1": 200, "[::1]:1": 200, "127.9.9.9": 200,
		"evil.example": 403, "127.0.0.1.evil.example:80": 403, "": 403, "10.0.0.1": 403} {
		require.Equal(t, want, ask(Options{}, true, "GET", "/", "Host", host).Code, "%q", host)
	}
	require.Equal(t, 303, ask(Options{Token: "t"}, false, "GET", "/?token=t", "Host", "node7").Code)
}

func TestToken(t *testing.T) {
	o := Options{Token: "0123456789abcdef"}
	w := ask(o, false, "GET", "/")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Contains(t, w.Body.String(), "token is missing or wrong")
	w = ask(o, false, "GET", "/?token=0123456789abcdeX")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Empty(t, w.Result().Cookies())
	require.NotContains(t, w.Body.String(), o.Token)

	w = ask(o, false, "GET", "/?token="+o.Token)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/", w.Header().Get("Location"), "the token is in no history")
	c := w.Result().Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, 200, ask(o, false, "GET", "/", "Cookie", c.Name+"="+c.Value).Code)
	require.Equal(t, 401, ask(o, false, "GET", "/events", "Cookie", c.Name+"=x").Code)
	require.Equal(t, 401, ask(o, false, "POST", "/decode", "Origin", "http://127.0.0.1:8080").Code)
}

// A browser sends each server the cookies of all ports of its host. Chromium keeps 180 for a host: the header
// of a request has room for them.
func TestCookiesOfManyPorts(t *testing.T) {
	const token = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" // as long as those that are generated
	address := serve(t, Options{Socket: filepath.Join(t.TempDir(), "none"), Token: token})
	r, err := http.NewRequest("GET", address, nil)
	require.NoError(t, err)
	for port := range 179 {
		r.AddCookie(&http.Cookie{Name: cookieOf(fmt.Sprint("127.0.0.1:", 65535-port)), Value: token[1:] + "x"})
	}
	own := &http.Cookie{Name: cookieOf(r.Host), Value: token}
	get := func() int {
		a, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		return a.StatusCode
	}
	require.Equal(t, http.StatusUnauthorized, get(), "the tokens of others")
	r.AddCookie(own)
	require.Equal(t, http.StatusOK, get())
}

// Clients without the token keep nobody out, with as many connections as there may be: whether they ask
// nothing more, or the body of what they ask for does not come.
func TestClientsWithoutTheToken(t *testing.T) {
	for name, request := range map[string]string{
		"idle":    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"no body": "POST /decode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, Options{Socket: filepath.Join(t.TempDir(), "none"), Token: "t"})
			u, err := url.Parse(address)
			require.NoError(t, err)
			var held []net.Conn
			for range mostConnections {
				c, err := net.Dial("tcp", u.Host)
				require.NoError(t, err)
				defer c.Close()
				_, err = fmt.Fprint(c, request)
				require.NoError(t, err)
				a, err := http.ReadResponse(bufio.NewReader(c), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusUnauthorized, a.StatusCode)
				held = append(held, c)
			}
			r, err := http.NewRequestWithContext(await.Context(t), "GET", address, nil)
			require.NoError(t, err)
			r.AddCookie(&http.Cookie{Name: cookieOf(u.Host), Value: "t"})
			a, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer a.Body.Close()
			require.Equal(t, http.StatusOK, a.StatusCode)
			_, err = io.Copy(io.Discard, held[0])
			require.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), "the first one has lost its place: %v", err)
		})
	}
}

// Pages of other sites can have browsers send requests, but not as this server's page.
func TestOrigin(t *testing.T) {
	const own = "http://127.0.0.1:8080"
	w := ask(Options{}, true, "POST", "/decode", "Origin", own)
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "RNR")
	for _, origin := range []string{"", "null", "http://evil.example", "https://127.0.0.1:8080", own + "1"} {
		require.Equal(t, 403, ask(Options{}, true, "POST", "/decode", "Origin", origin).Code, "%q", origin)
	}
	require.Equal(t, 403, ask(Options{}, true, "POST", "/decode", "Origin", own, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 403, ask(Options{}, true, "GET", "/events", "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 200, ask(Options{}, true, "GET", "/", "Sec-Fetch-Site", "cross-site").Code, "a link to the page")
}

func TestReadOnly(t *testing.T) {
	w := ask(Options{}, true, "POST", "/rules", "Origin", "http://127.0.0.1:8080")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "--control")
}

func TestBadQueries(t *testing.T) {
	for _, q := range []string{"queue=x", "queue=16777216", "sort=passwd", "ring=all", "rows=-1", "from=99999999",
		"filter=" + strings.Repeat("x", mostFilter+1)} {
		require.Equal(t, http.StatusBadRequest, ask(Options{}, true, "GET", "/events?"+q).Code, q)
	}
	for _, ms := range []string{"", "0", "501", "x"} {
		w := ask(Options{}, true, "POST", "/trace?queue=1&ms="+ms, "Origin", "http://127.0.0.1:8080")
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, ms)
	}
}
