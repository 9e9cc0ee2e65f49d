package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A Snapshot is an answer of an engine.
type Snapshot struct {
	Taken   time.Time `json:"taken"` // when it was asked for
	Device  Device    `json:"device"`
	Threads []Thread  `json:"threads"`
	Clients []Client  `json:"clients"`
	Queues  []Queue   `json:"queues"`
	CQs     []CQ      `json:"cqs"`
	SRQs    []SRQ     `json:"srqs"`
	Ring    *Ring     `json:"ring,omitempty"`
	Peers   []Peer    `json:"peers,omitempty"`
}

// ErrRefused is wrapped in the error of Read if the engine says why it does not answer.
var ErrRefused = errors.New("state: the engine refuses")

// mostAnswer is the most bytes of an answer: a million objects have fewer. Another program than an engine may
// listen at the path, and say anything without end.
const mostAnswer = 512 << 20

// Read asks the engine whose socket is at path (without Suffix). It returns the error of ctx when ctx ends.
// Safe for concurrent use.
func Read(ctx context.Context, path string, r Request) (*Snapshot, error) {
	s := &Snapshot{Taken: time.Now()}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path+Suffix)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	ended := func(err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	// An engine that refuses a reader may close the connection before the request comes: its reason can still
	// be read.
	unsent := json.NewEncoder(c).Encode(&r)
	most := &io.LimitedReader{R: c, N: mostAnswer}
	in := json.NewDecoder(bufio.NewReaderSize(most, 64<<10))
	for {
		var l Line
		err := in.Decode(&l)
		if err != nil && unsent != nil {
			return nil, ended(unsent)
		}
		switch {
		case err != nil && most.N == 0:
			return nil, fmt.Errorf("state: an answer of more than %d bytes; no engine has so much to say", mostAnswer)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("state: the answer of the engine ends after %d objects", s.objects())
		case err != nil:
			return nil, ended(err)
		case l.Refused != "":
			return nil, fmt.Errorf("%w: %s", ErrRefused, l.Refused)
		case l.End:
			return s, nil
		}
		s.add(&l)
	}
}

// add adds the object of a line. It passes over lines of kinds that it does not know: later engines may
// have more.
func (s *Snapshot) add(l *Line) {
	switch {
	case l.Device != nil:
		s.Device = *l.Device
	case l.Thread != nil:
		s.Threads = append(s.Threads, *l.Thread)
	case l.Client != nil:
		s.Clients = append(s.Clients, *l.Client)
	case l.Queue != nil:
		s.Queues = append(s.Queues, *l.Queue)
	case l.CQ != nil:
		s.CQs = append(s.CQs, *l.CQ)
	case l.SRQ != nil:
		s.SRQs = append(s.SRQs, *l.SRQ)
	case l.Ring != nil:
		s.Ring = l.Ring
	case l.Peer != nil:
		s.Peers = append(s.Peers, *l.Peer)
	}
}

func (s *Snapshot) objects() int { return len(s.Clients) + len(s.Queues) + len(s.CQs) + len(s.SRQs) }
