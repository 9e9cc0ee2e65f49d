//go:build linux && (amd64 || arm64)

package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/nicless/nicless/state"
)

const (
	mostStreams = 8                // browsers that are served at once
	sampleEvery = 2                // of so many events, one has a sample, because it slows the device
	mostFilter  = 200              // bytes of a filter
	readTime    = 10 * time.Second // how long a browser may take to read a frame
	sendBuffer  = 128 << 10        // bytes that the kernel keeps for a browser that does not read
)

// serveEvents serves GET /events: frames for one view, until the browser goes or reads nothing any more.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	v, err := viewOf(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open at this server already, which is the limit", mostStreams),
			http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 0; ; n++ {
		event, pause, err := s.next(r.Context(), v, n%sampleEvery == 0)
		if err != nil || r.Context().Err() != nil {
			return
		}
		if err := send(w, event, s.readTime); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.opt.Log(fmt.Sprintf("the page at %s has read nothing for %v, and is dropped", r.RemoteAddr, s.readTime))
			}
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pause):
		}
	}
}

// next makes the next event of a stream, with a latency sample or without, and says how long the stream
// pauses after it: for a look at the engine, the frame, the sample, and its encoding. Only these bytes wait
// for a browser: a frame refers to all that the engine has said.
func (s *Server) next(
	ctx context.Context, v *view, sampled bool,
) (event []byte, pause time.Duration, err error) {
	l := s.looker.look(ctx)
	begin := s.opt.CPU()
	f := s.frameOf(ctx, &l, v)
	if sampled {
		s.sample(ctx, f)
	}
	body, err := json.Marshal(f) // one line
	if err != nil {
		return nil, 0, err
	}
	pause = max(l.pause, pauseAfter(s.opt.CPU()-begin, s.looker.interval))
	return fmt.Appendf(nil, "data: {\"pause\":%d,%s\n\n", pause.Milliseconds(), body[1:]), pause, nil
}

// send writes an event. It returns an error that wraps os.ErrDeadlineExceeded if the browser does not take it
// in time.
func send(w http.ResponseWriter, event []byte, within time.Duration) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := w.Write(event); err != nil {
		return err
	}
	return c.Flush()
}

// viewOf reads a view from the query of an address.
func viewOf(q url.Values) (*view, error) {
	v := &view{Filter: q.Get("filter"), Sort: q.Get("sort"), Down: q.Get("down") == "1", Rows: 50,
		Ring: state.RingOf(q.Get("ring"))}
	if len(v.Filter) > mostFilter {
		return nil, fmt.Errorf("a filter of %d bytes; at most %d", len(v.Filter), mostFilter)
	}
	if _, ok := orders[v.Sort]; !ok {
		return nil, fmt.Errorf("sort %q is no column", v.Sort)
	}
	switch v.Ring {
	case "":
		v.Ring = state.SendRing
	case state.SendRing, state.ReceiveRing, state.CQRing:
	default:
		return nil, fmt.Errorf("ring %q; there are send, receive and cq", v.Ring)
	}
	for name, to := range map[string]*int{"from": &v.From, "rows": &v.Rows} {
		n, err := number(q, name, 24)
		if err != nil {
			return nil, err
		}
		if q.Has(name) {
			*to = int(n)
		}
	}
	n, err := number(q, "queue", 24)
	v.Queue = uint32(n)
	return v, err
}

// number returns the number of a query that has a name, of so many bits; 0 if there is none.
func number(q url.Values, name string, bits int) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s %q is no number from 0 to %d", name, q.Get(name), uint64(1)<<bits-1)
	}
	return n, nil
}
