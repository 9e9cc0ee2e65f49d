//go:build linux && (amd64 || arm64)

package metrics

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/conns"
)

// Limits of the HTTP server. A client that reads or writes slowly holds only its connection, for as long.
const (
	headerTime = 5 * time.Second // for the header of a request
	writeTime  = 10 * time.Second
	idleTime   = 2 * time.Minute // between two requests: more than the interval of most scrapes
	mostHeader = 8 << 10         // bytes

	mostConnections = 64 // open at once
)

const index = `<!DOCTYPE html><html lang="en"><title>nicless</title><p>The metrics of an engine of nicless: ` +
	`<a href="/metrics">/metrics</a></html>
`

// Serve serves the metrics at l until ctx ends, and closes l. It returns nil when ctx has ended.
func (e *Exporter) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: e.handler(onlyHere(l)), ConnState: conns.NewBound(mostConnections).Note,
		ReadHeaderTimeout: headerTime, ReadTimeout: headerTime,
		WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what clients do wrong is not for the engine's log
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// handler serves /metrics, and a page at / that leads there.
func (e *Exporter) handler(here bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", e.serveMetrics)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		_, _ = io.WriteString(w, index)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if here && !names(r.Host) {
			http.Error(w, "this server is for this host only: use 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// names reports whether a Host header names this host as one does who means it. A page in a browser can let
// its own name mean 127.0.0.1 (DNS rebinding), and could read the answer then.
func names(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && at.IsLoopback()
}

func (e *Exporter) serveMetrics(w http.ResponseWriter, r *http.Request) {
	f := formatFor(r.Header)
	page, err := e.page(f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(f))
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	_, _ = w.Write(page)
}
