//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// metricsEngine runs nicless engine --metrics, and returns its socket and the URL that it prints.
func metricsEngine(t *testing.T) (socket, url string) {
	t.Helper()
	f := engineFlags{socket: filepath.Join(t.TempDir(), "e"), mode: "0600", level: "warn", metrics: "127.0.0.1:0",
		devices: 1}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := f.serve(ctx, in)
		_ = in.CloseWithError(io.EOF)
		ended <- err
	}()
	urls := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if at, ok := strings.CutPrefix(s.Text(), "nicless: metrics at "); ok {
				urls <- at
			}
		}
		close(urls)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, await.Receive(t, "the engine has ended", ended))
	})
	url = await.Receive(t, "the engine prints where its metrics are", urls)
	require.NotEmpty(t, url)
	return f.socket, url
}

// scrape returns the values of the metrics, by name and labels, and the exemplars.
func scrape(t *testing.T, url string) (values map[string]float64, exemplars map[string]string) {
	t.Helper()
	r, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	require.Equal(t, http.StatusOK, a.StatusCode)
	values, exemplars = map[string]float64{}, map[string]string{}
	s := bufio.NewScanner(a.Body)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		line, exemplar, _ := strings.Cut(s.Text(), " # ")
		at := strings.LastIndexByte(line, ' ')
		exemplars[line[:at]] = exemplar
		values[line[:at]], err = strconv.ParseFloat(line[at+1:], 64)
		require.NoError(t, err)
	}
	require.NoError(t, s.Err())
	return values, exemplars
}

// The metrics of an engine are what a client of it does, and what is explained to it.
func TestMetricsOfAnEngine(t *testing.T) {
	socket, url := metricsEngine(t)
	c := enginetest.Dial(t, socket, nicless.CQConfig{})
	for _, wrong := range []uint32{0, 0, 1} { // the last one has a key that does not exist
		wr := c.Write(100)
		wr.RKey += wrong
		require.NoError(t, c.A.PostSend(wr))
		_, err := c.CQ.Wait(await.Context(t), make([]nicless.Completion, 1))
		require.NoError(t, err)
	}

	var values map[string]float64
	var exemplars map[string]string
	series := ""
	await.Until(t, "the metrics have the failure", func() bool { // values may be those of a second before
		values, exemplars = scrape(t, url)
		for name := range values {
			if strings.HasPrefix(name, "nicless_client_connections{") {
				series = strings.TrimPrefix(name, "nicless_client_connections")
			}
		}
		return values["nicless_explained_total"] > 0
	})
	require.Contains(t, series, `device="nicless0"`)
	require.Contains(t, series, `client="nicless.test"`)
	for name, want := range map[string]float64{
		"nicless_up": 1, "nicless_wqes_total": 3, "nicless_payload_bytes_total": 200, "nicless_wqes_failed_total": 1,
		"nicless_clients": 1, "nicless_queues": 2, "nicless_cqs": 1, `nicless_thread_queues{thread="0"}`: 2,
		"nicless_client_connections" + series: 1, "nicless_client_wqes_total" + series: 3,
		"nicless_client_queues" + series: 2, "nicless_client_pds" + series: 1,
	} {
		require.Equal(t, want, values[name], name)
	}
	require.GreaterOrEqual(t, values["nicless_client_memory_bytes"+series], 4096.0)
	for _, name := range []string{"nicless_explained_total", "nicless_client_explained_total" + series} {
		require.Contains(t, exemplars[name], `code="key-stale"`, name)
		require.Contains(t, exemplars[name], `program="nicless.test"`)
	}

	require.NoError(t, c.Close())
	await.Until(t, "the metrics have the end of the client", func() bool {
		values, _ = scrape(t, url)
		return values["nicless_clients"] == 0
	})
	require.Equal(t, 3.0, values["nicless_wqes_total"])
	require.Equal(t, 3.0, values["nicless_client_wqes_total"+series])
	require.Zero(t, values["nicless_client_queues"+series])
}

// nicless run --metrics serves the metrics of the program's engine until the program has ended.
func TestMetricsOfARun(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	command := func(address string) *exec.Cmd {
		c := exec.Command("nicless", "run", "--private", "--devices", "2", "--device-name", "mlx5_%d", "--metrics", address, "--",
			"sh", "-c", `puts "" right right wrong; read line`)
		c.Env = append(os.Environ(), "NICLESS_SHIM="+harmless(), "XDG_RUNTIME_DIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
		return c
	}
	refused, err := command(listener.Addr().String()).CombinedOutput()
	require.ErrorContains(t, err, "exit status 125")
	require.Contains(t, string(refused), fmt.Sprintf("error: run: --metrics %s: bind: address already in use\n", listener.Addr()))
	require.Contains(t, string(refused), "hint: another engine or exporter may have the port")

	c := command("127.0.0.1:0")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	errs, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(errs)
	require.True(t, lines.Scan())
	url, ok := strings.CutPrefix(lines.Text(), "nicless: metrics at ")
	require.True(t, ok, lines.Text())
	var values map[string]float64
	await.Until(t, "the metrics have what the program has done", func() bool {
		values, _ = scrape(t, url)
		return values["nicless_wqes_total"] == 3 && values["nicless_clients"] == 0
	})
	require.Equal(t, 1.0, values["nicless_up"])
	require.Equal(t, 1.0, values["nicless_wqes_failed_total"])
	require.NoError(t, in.Close()) // read ends
	require.False(t, lines.Scan(), lines.Text())
	require.ErrorContains(t, c.Wait(), "exit status 1", "that of read at the end of its input")
	_, err = http.Get(url)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
