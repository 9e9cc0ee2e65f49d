//go:build linux && (amd64 || arm64)

package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// slowCall sends a call without its body, for which the server waits when slowCall returns. Its answer can be
// read from in.
func slowCall(t *testing.T, address string) (c net.Conn, in *bufio.Reader) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	c, err = net.Dial("tcp", u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "POST /decode HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nContent-Length: 24\r\n"+
		"Expect: 100-continue\r\n\r\n", u.Host, u.Host)
	require.NoError(t, err)
	in = bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, a.StatusCode, "somebody reads the body")
	return c, in
}

// Calls whose bodies do not come keep no other out.
func TestSlowBodies(t *testing.T) {
	s := New(Options{Socket: filepath.Join(t.TempDir(), "none")})
	s.bodyTime = time.Hour
	address := serveIt(t, s)
	var slow []net.Conn
	var answers []*bufio.Reader
	for range mostCalls {
		c, in := slowCall(t, address)
		slow, answers = append(slow, c), append(answers, in)
	}
	r, err := http.NewRequestWithContext(await.Context(t), "GET", address+"rules", nil)
	require.NoError(t, err)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	require.Equal(t, http.StatusOK, a.StatusCode)
	for i, c := range slow {
		_, err := io.WriteString(c, "IBV_WC_RNR_RETRY_EXC_ERR")
		require.NoError(t, err)
		a, err := http.ReadResponse(answers[i], nil)
		require.NoError(t, err, "it was waited for")
		body, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "RNR")
	}
}

func TestBodyThatNeverComes(t *testing.T) {
	s := New(Options{Socket: filepath.Join(t.TempDir(), "none")})
	s.bodyTime = 10 * time.Millisecond
	_, in := slowCall(t, serveIt(t, s))
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, a.StatusCode)
	require.Contains(t, string(body), "timeout")
}

// A placeWatcher is an answer that notes how many calls have places while it goes.
type placeWatcher struct {
	*httptest.ResponseRecorder
	s      *Server
	places []int
}

func (w *placeWatcher) Write(b []byte) (int, error) {
	w.places = append(w.places, len(w.s.calls))
	return w.ResponseRecorder.Write(b)
}

// A call whose answer is not read keeps no other out.
func TestPlaceOfACall(t *testing.T) {
	s := New(Options{})
	w := &placeWatcher{httptest.NewRecorder(), s, nil}
	during := 0
	s.call(func(_ *http.Request, body []byte) (any, error) {
		during = len(s.calls)
		return string(body), nil
	}).ServeHTTP(w, httptest.NewRequest("POST", "/decode", strings.NewReader("text")))
	require.Equal(t, 1, during)
	require.Equal(t, []int{0}, w.places)
	require.JSONEq(t, `"text"`, w.Body.String())
}

func TestBodyThatIsTooLong(t *testing.T) {
	w := httptest.NewRecorder()
	New(Options{}).handler(true).ServeHTTP(w, callWith(strings.Repeat("x", mostBody+1)))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "too large")
}

func callWith(body string) *http.Request {
	r := httptest.NewRequest("POST", "/decode", strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Origin", "http://127.0.0.1:8080")
	return r
}
