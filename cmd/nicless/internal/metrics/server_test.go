package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// serve serves the metrics of a fake engine, and returns the address.
func serve(t *testing.T, f *fake) string {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	e := New(f.path, func(int) string { return "nicless0" }, Build{})
	go func() { ended <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, await.Receive(t, "the server has ended", ended))
	})
	return l.Addr().String()
}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host")
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a, string(body)
}

func TestServerNegotiatesTheFormat(t *testing.T) {
	f := newFake(t)
	f.sample()
	url := "http://" + serve(t, f)
	a, body := get(t, url+"/metrics")
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", a.Header.Get("Content-Type"))
	require.Contains(t, body, "\nnicless_wqes_total 1010\n")

	a, body = get(t, url+"/metrics", "Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	require.Contains(t, a.Header.Get("Content-Type"), "application/openmetrics-text; version=")
	require.True(t, strings.HasSuffix(body, "\n# EOF\n"))

	a, body = get(t, url+"/")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, body, "/metrics")
	a, _ = get(t, url+"/debug/pprof")
	require.Equal(t, http.StatusNotFound, a.StatusCode)
}

// A page whose name means 127.0.0.1 for a moment cannot read metrics.
func TestServerForThisHostRefusesOtherNames(t *testing.T) {
	f := newFake(t)
	url := "http://" + serve(t, f) + "/metrics"
	for host, status := range map[string]int{"localhost": 200, "localhost:80": 200, "127.0.0.1:9464": 200, "[::1]:80": 200, "[::1]": 200,
		"example.com": 403, "localhost.example.com:80": 403, "10.0.0.1": 403} {
		a, _ := get(t, url, "Host", host)
		require.Equal(t, status, a.StatusCode, host)
	}
	require.False(t, onlyHere(at4(net.IPv4zero)))
	require.True(t, onlyHere(at4(net.IPv6loopback)))
}

type at4 net.IP

func (a at4) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (a at4) Close() error              { return nil }
func (a at4) Addr() net.Addr            { return &net.TCPAddr{IP: net.IP(a), Port: 1} }

func TestAddresses(t *testing.T) {
	taken, err := Listen(":0")
	require.NoError(t, err)
	defer taken.Close()
	require.True(t, onlyHere(taken), "without a host it is for this host")
	port := taken.Addr().(*net.TCPAddr).Port

	for address, want := range map[string]struct {
		cause error
		hint  string
	}{
		taken.Addr().String(): {syscall.EADDRINUSE, fmt.Sprintf("ss -ltnp 'sport = :%d'", port)},
		"9464":                {ErrAddress, "0 to 65535"},
		"127.0.0.1:http":      {ErrAddress, "0 to 65535"},
		"127.0.0.1:65536":     {ErrAddress, "0 to 65535"},
		"192.0.2.1:0":         {syscall.EADDRNOTAVAIL, "127.0.0.1"},
	} {
		_, err := Listen(address)
		var at *AddressError
		require.ErrorAs(t, err, &at, address)
		require.Equal(t, address, at.Address)
		require.ErrorIs(t, err, want.cause)
		require.Contains(t, at.Hint, want.hint)
	}
}

// Clients that connect and ask nothing, and clients that never read, keep nobody out.
func TestClientsThatHoldConnections(t *testing.T) {
	f := newFake(t)
	f.sample()
	address := serve(t, f)
	var held []net.Conn
	for i := range 2 * mostConnections {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		held = append(held, c)
		if i%2 == 0 {
			_, err = fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
		}
	}
	a, body := get(t, "http://"+address+"/metrics")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, body, "nicless_up 1")
	// The first one that asked nothing has lost its place.
	_, err := bufio.NewReader(held[1]).ReadByte()
	require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
}
