//go:build linux && (amd64 || arm64)

package web

import (
	"cmp"
	"context"
	"slices"

	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/state"
)

// mostClients and mostErrors bound a frame.
const (
	mostClients = 100
	mostErrors  = 50
)

// A frame is what the page shows from one event of a stream on. The event has a member "pause", too: the
// milliseconds until the next one.
type frame struct {
	Error   string         `json:"error,omitempty"` // why the engine does not answer
	Socket  string         `json:"socket"`
	Control bool           `json:"control"`
	Device  *state.Device  `json:"device,omitempty"`
	Threads []threadFrame  `json:"threads,omitempty"`
	Total   state.Rate     `json:"total"`
	Clients []clientFrame  `json:"clients,omitempty"` // the busiest
	Rows    []row          `json:"rows"`
	Found   int            `json:"found"` // queues that the filter has found
	Errors  []state.Error  `json:"errors"`
	Links   []links.Report `json:"links"`
	Chosen  *chosenFrame   `json:"chosen,omitempty"`
}

type threadFrame struct {
	*state.Thread
	Load state.Load `json:"load"`
}

type clientFrame struct {
	*state.Client
	Rate state.Rate `json:"rate"`
}

// A chosenFrame is the selected queue.
type chosenFrame struct {
	row
	Ring    *ringFrame `json:"ring"`
	Latency []int64    `json:"latency"` // ns, of the newest sample
}

// frameOf makes a frame of a look. It asks the engine for the ring of the selected queue, if there is one.
func (s *Server) frameOf(ctx context.Context, l *look, v *view) *frame {
	f := &frame{Socket: s.opt.Socket, Control: s.opt.Control, Rows: []row{},
		Errors: []state.Error{}, Links: l.links}
	if l.err != nil {
		f.Error = l.err.Error()
	}
	if l.now == nil {
		return f
	}
	f.Device, f.Total = &l.now.Device, l.change.Total
	for i := range l.now.Threads {
		f.Threads = append(f.Threads, threadFrame{&l.now.Threads[i], l.change.Threads[i]})
	}
	f.Clients = clientsOf(l)
	f.Rows, f.Found = rowsOf(l, v)
	f.Errors = errorsOf(l)
	f.Errors = f.Errors[:min(len(f.Errors), mostErrors)]
	if q := queueOf(l, v.Queue); q != nil {
		f.Chosen = &chosenFrame{row: row{Queue: q, Rate: l.change.Queues[q.Number]}, Latency: []int64{}}
		if l.err == nil {
			f.Chosen.Ring = ringOf(ctx, s.opt.Socket, l, q, v.Ring)
		}
	}
	return f
}

// sample adds latencies of the selected queue, if it works.
func (s *Server) sample(ctx context.Context, f *frame) {
	c := f.Chosen
	if c == nil || f.Error != "" || c.Rate.WQEs == 0 {
		return
	}
	got, err := s.measure(ctx, s.opt.Socket, c.Number)
	if err != nil {
		return // the queue may have gone meanwhile
	}
	for _, d := range got.Latencies {
		c.Latency = append(c.Latency, d.Nanoseconds())
	}
}

func queueOf(l *look, number uint32) *state.Queue {
	for i := range l.now.Queues {
		if q := &l.now.Queues[i]; number != 0 && q.Number == number {
			return q
		}
	}
	return nil
}

// clientsOf returns the busiest clients.
func clientsOf(l *look) (list []clientFrame) {
	for i := range l.now.Clients {
		c := &l.now.Clients[i]
		list = append(list, clientFrame{c, l.change.Clients[c.Number]})
	}
	slices.SortStableFunc(list, func(a, b clientFrame) int { return cmp.Compare(b.Rate.WQEs, a.Rate.WQEs) })
	return list[:min(len(list), mostClients)]
}

// errorsOf returns the errors of all clients, the newest first, each with the name of its client.
func errorsOf(l *look) []state.Error {
	list := append([]state.Error{}, l.now.Device.Errors...)
	for i := range l.now.Clients {
		c := &l.now.Clients[i]
		for _, e := range c.Errors {
			e.Client = c.Program
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b state.Error) int { return b.Time.Compare(a.Time) })
	return list
}
