//go:build linux && (amd64 || arm64)

package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/conns"
	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/tools/decodepage/answer"
)

//go:embed page
var files embed.FS

// Limits of the HTTP server.
const (
	headerTime      = 5 * time.Second
	answerTime      = 20 * time.Second
	idleTime        = 2 * time.Minute
	mostHeader      = 16 << 10 // bytes
	mostBody        = 1 << 20  // bytes
	bodyTime        = 5 * time.Second
	mostConnections = 64
	mostCalls       = 2 // decodings, traces and changes of rules at once
)

// Options of a Server.
type Options struct {
	Socket  string // of the engine
	Token   string // that requests need; "": none, which is for loopback addresses only
	Control bool   // the page may switch faults on and off

	// CPU returns the processor time of this process, by which looks are paced. Nil asks the system.
	CPU func() time.Duration

	// Log takes sentences about pages that are dropped. It is safe for concurrent use. Nil drops them.
	Log func(string)
}

// A Server serves the page of one engine. Its methods are safe for concurrent use.
type Server struct {
	opt      Options
	readTime time.Duration
	bodyTime time.Duration // how long the body of a call may take to come
	measure  func(ctx context.Context, socket string, queue uint32) (latency.Sample, error)
	looker   looker
	rules    ruleset
	streams  chan struct{} // has an element for each that is open
	calls    chan struct{} // has an element for each that is answered
}

// New returns a Server. It asks the engine nothing before somebody asks it.
func New(o Options) *Server {
	if o.CPU == nil {
		o.CPU = processorTime
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return &Server{opt: o, readTime: readTime, bodyTime: bodyTime, measure: latency.Measure,
		rules:   ruleset{socket: o.Socket},
		looker:  looker{socket: o.Socket, cpu: o.CPU, interval: interval},
		streams: make(chan struct{}, mostStreams), calls: make(chan struct{}, mostCalls)}
}

// Local reports whether an address can be reached from this host only.
func Local(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().IsLoopback()
}

// Serve serves at l until ctx ends, and closes l. It switches the page's rules of faults off at its end. It
// returns nil when ctx has ended. Without a token it serves loopback addresses only, and never with Control.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.opt.Token == "" && (s.opt.Control || !Local(l.Addr())) {
		return errors.Join(fmt.Errorf("web: %s needs a token", l.Addr()), l.Close())
	}
	bound := conns.NewBound(mostConnections)
	h := &http.Server{
		Handler:     s.handler(Local(l.Addr())),
		ReadTimeout: answerTime, ReadHeaderTimeout: headerTime, WriteTimeout: answerTime,
		IdleTimeout:    idleTime,
		MaxHeaderBytes: mostHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // of mistakes of browsers
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(sendBuffer) // the kernel's own bound does as well
			}
			return bound.Context(ctx, c)
		},
		ConnState: bound.Note,
	}
	defer context.AfterFunc(ctx, func() { _ = h.Close() })()
	err := h.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.rules.off())
}

// handler serves all paths. here says that only this host can reach the server.
func (s *Server) handler(here bool) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name is constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /events", s.serveEvents)
	mux.Handle("POST /decode", s.call(s.decode))
	mux.Handle("POST /entry", s.call(s.entry))
	mux.Handle("POST /trace", s.call(s.trace))
	mux.Handle("GET /rules", s.call(func(*http.Request, []byte) (any, error) { return s.rules.now() }))
	mux.Handle("POST /rules", s.call(s.setRules))
	return &guard{here: here, token: s.opt.Token, next: mux}
}

// errReadOnly is the answer to changes without Options.Control.
var errReadOnly = errors.New("this page only shows; nicless web --control lets it switch faults on and off")

// call answers with JSON: the value that f makes of a request and its body, or {"error": ...}. Few calls are
// answered at once, because they cost processor time here or at the engine. So a call has its place neither
// while its body comes nor while its answer goes: both are as slow as a client likes.
func (s *Server) call(f func(r *http.Request, body []byte) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := s.body(w, r)
		if err != nil {
			w.Header().Set("Connection", "close") // nobody reads the rest
			writeJSON(w, statusOf(err), errorJSON(err))
			return
		}
		status, answer, ok := s.inPlace(r, body, f)
		if ok {
			writeJSON(w, status, answer)
		}
	})
}

// body reads the body of a request, which must come in time.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	// Without a deadline of its own, the one of the request holds. The server ends it with the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime))
	return io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
}

// inPlace waits for a place and calls f there. ok is false if the request has ended before.
func (s *Server) inPlace(
	r *http.Request, body []byte, f func(*http.Request, []byte) (any, error),
) (status int, answer []byte, ok bool) {
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	case <-r.Context().Done():
		return 0, nil, false
	}
	v, err := f(r, body)
	if err == nil {
		answer, err = json.Marshal(v)
	}
	if err != nil {
		return statusOf(err), errorJSON(err), true
	}
	return http.StatusOK, answer, true
}

// statusOf returns the status of the answer to a call that has failed.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errReadOnly):
		return http.StatusForbidden
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return http.StatusUnprocessableEntity
}

func errorJSON(err error) []byte {
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings can be encoded
	return b
}

func writeJSON(w http.ResponseWriter, status int, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the browser may have gone
}

// decode explains the text of a request, as nicless decode does.
func (s *Server) decode(_ *http.Request, text []byte) (any, error) {
	return map[string]string{"text": answer.To(string(text))}, nil
}

// entry describes the entry of a ring: queue, ring and entry are in the query.
func (s *Server) entry(r *http.Request, _ []byte) (any, error) {
	v, err := viewOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	n, err := number(r.URL.Query(), "entry", 63)
	if err != nil {
		return nil, err
	}
	q, l, err := s.queue(r.Context(), v.Queue)
	if err != nil {
		return nil, err
	}
	text, err := entryText(r.Context(), s.opt.Socket, l, q, v.Ring, n)
	return map[string]string{"text": text}, err
}

func (s *Server) queue(ctx context.Context, number uint32) (*state.Queue, *look, error) {
	l := s.looker.look(ctx)
	if l.now == nil {
		return nil, nil, l.err
	}
	q := queueOf(&l, number)
	if q == nil {
		return nil, nil, fmt.Errorf("queue 0x%x does not exist", number)
	}
	return q, &l, nil
}

// trace takes a trace: queue and ms are in the query.
func (s *Server) trace(r *http.Request, _ []byte) (any, error) {
	queue, err := number(r.URL.Query(), "queue", 24)
	if err != nil {
		return nil, err
	}
	ms, err := number(r.URL.Query(), "ms", 16)
	d := time.Duration(ms) * time.Millisecond
	if err == nil && (d <= 0 || d > mostTrace) {
		err = fmt.Errorf("%d ms; a trace takes from 1 to %d", ms, mostTrace.Milliseconds())
	}
	if err != nil {
		return nil, err
	}
	return record(r.Context(), s.opt.Socket, uint32(queue), d)
}

// setRules switches on the rules that are in a request; none switches them off.
func (s *Server) setRules(_ *http.Request, text []byte) (any, error) {
	if !s.opt.Control {
		return nil, errReadOnly
	}
	set := s.rules.off
	if len(text) > 0 {
		set = func() error { return s.rules.set(string(text)) }
	}
	if err := set(); err != nil {
		return nil, err
	}
	return s.rules.now()
}
