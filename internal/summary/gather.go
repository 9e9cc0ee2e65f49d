package summary

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/state"
)

// Gather makes the summary of an engine from the lines of its state: the device, its threads and its clients,
// which ask gives. The caller fills in what the lines do not have: the machine and the links.
func Gather(ask func(give func(*state.Line) error) error) (*state.Summary, error) {
	s := &state.Summary{Disclosed: true}
	programs := make(map[int]*state.Program)
	err := ask(func(l *state.Line) error {
		switch {
		case l.Device != nil:
			s.PID, s.Faults = uint32(l.Device.PID), uint32(l.Device.Faults)
			s.Time = uint64(max(time.Since(l.Device.Started), 0))
			addCounts(s, &l.Device.Past)
		case l.Thread != nil:
			s.Threads++
			s.Stuck = s.Stuck || l.Thread.Stuck != ""
		case l.Client != nil:
			addClient(s, programs, l.Client)
		case l.Refused != "":
			s.Stuck = true // a thread is stuck: nothing more is known
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Running = uint32(len(programs))
	for _, p := range programs {
		s.Programs = append(s.Programs, *p)
	}
	slices.SortFunc(s.Programs, func(a, b state.Program) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Bytes, a.Bytes),
			cmp.Compare(b.WQEs, a.WQEs), cmp.Compare(a.PID, b.PID))
	})
	s.Programs = s.Programs[:min(len(s.Programs), state.MaxPrograms)]
	return s, nil
}

func addClient(s *state.Summary, programs map[int]*state.Program, c *state.Client) {
	s.Clients++
	s.Queues += uint32(c.Queues)
	s.Linked += uint32(c.Linked)
	s.Waiting += uint32(c.Waiting)
	addCounts(s, &c.Counts)
	p := programs[c.PID]
	if p == nil {
		name := c.Program
		if name == "" {
			name = c.Name
		}
		p = &state.Program{Name: shorten(name), PID: uint32(c.PID)}
		programs[c.PID] = p
	}
	p.Queues += uint32(c.Queues)
	p.Linked += uint32(c.Linked)
	p.Waiting += uint32(c.Waiting)
	p.WQEs += c.Counts.WQEs
	p.Bytes += c.Counts.Bytes
	p.Failed += c.Counts.Failed
}

func addCounts(s *state.Summary, c *state.Counts) {
	s.WQEs += c.WQEs
	s.Bytes += c.Bytes
	s.Failed += c.Failed
	s.Explains += c.Explained
}

// shorten cuts a name to what a program has room for, at the end of a character.
func shorten(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), nameSize)], "")
}
