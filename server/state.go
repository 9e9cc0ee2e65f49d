//go:build linux && (amd64 || arm64)

package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
)

// Limits of those who ask for the state of an engine. A reader that stops reading has its answer cut after
// stateTime, so the few readers that a user may have at once make others of that user wait, and nobody else:
// mostReaders is for some views of each of eight users, readersOfUser for some views of one. Root and the
// engine's user are not among mostReaders: somebody with many uids (subuid(5)) must not hide from them.
const (
	mostReaders   = 64
	readersOfUser = 8
	stateTime     = 10 * time.Second // for a request to come, and for each part of an answer to be taken
)

// A stateServer answers requests for the state of an engine.
type stateServer struct {
	e        *engine.Engine
	fabric   func() []state.Peer // nil: the engine knows of no others
	patience time.Duration

	mu      sync.Mutex
	readers map[uint32]int // connections, by user
	all     int            // without those of root and of the engine's user
}

// ServeState answers requests for the state of e (package state) at a socket, until stop is called. A socket
// that an engine has left there is replaced; anything else there is an error. mode is the socket's permission
// bits. It returns when it listens. When stop has returned, no file is left at path.
func ServeState(e *engine.Engine, path string, mode fs.FileMode) (stop func(), err error) {
	return ServeFabricState(e, nil, path, mode)
}

// ServeFabricState is ServeState for an engine with links. fabric returns the engine and all others to which
// these lead, after having asked them, and is called on any goroutine; nobody changes its result.
func ServeFabricState(
	e *engine.Engine, fabric func() []state.Peer, path string, mode fs.FileMode,
) (stop func(), err error) {
	s := &stateServer{e: e, fabric: fabric, patience: stateTime, readers: make(map[uint32]int)}
	return s.listen(path, mode)
}

func (s *stateServer) listen(path string, mode fs.FileMode) (stop func(), err error) {
	if err := unixsock.RemoveStale(path, "engine"); err != nil {
		return nil, fmt.Errorf("server: state: %w", err)
	}
	l, err := unixsock.ListenStream(path, mode)
	if err != nil {
		return nil, err
	}
	go s.accept(l)
	return func() { _ = l.Close() }, nil
}

func (s *stateServer) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Second) // no descriptors are left
			continue
		}
		uid := nic.UnknownUser
		cred, err := unixsock.Credentials(c)
		if err == nil {
			uid = cred.Uid
		}
		if err != nil || !s.admit(uid) {
			refuseReader(c)
			s.discard(uid, c)
			continue
		}
		go func() {
			s.answer(c, uid)
			s.leave(uid) // before the reader sees the end of the connection, and comes again
			s.discard(uid, c)
		}()
	}
}

// discard ends a connection. The device closes it, because a reader of an old kernel can send descriptors
// that are slow to close (package server).
func (s *stateServer) discard(uid uint32, c *net.UnixConn) {
	nic.Of(s.e).DiscardConnection(uid, c, nic.Cost{})
}

// refuseReader says that there are too many readers. The line fits into the socket's buffer, so it does not
// wait. Nothing is read, because the caller accepts all readers: it would wait for this one, and a kernel
// before Linux 6.16 would close descriptors that came with the request, which can block.
func refuseReader(c *net.UnixConn) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	why := fmt.Sprintf("%d readers of the state at once, %d of one user, are the most", mostReaders, readersOfUser)
	_ = json.NewEncoder(c).Encode(&state.Line{Refused: why})
}

// drain reads the rest of a request that is refused, for some time at most: the kernel resets a connection
// that is closed with bytes that nobody has read, and the reader could lose the answer.
func drain(c *net.UnixConn, most time.Duration) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(most))
	_, _ = io.CopyN(io.Discard, c, 16*state.MostRequest)
}

func (s *stateServer) admit(uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[uid] == readersOfUser || !sees(uid) && s.all == mostReaders {
		return false
	}
	if !sees(uid) {
		s.all++
	}
	s.readers[uid]++
	return true
}

// sees reports whether a user is root or the engine's.
func sees(uid uint32) bool { return uid == 0 || uid == uint32(os.Getuid()) }

func (s *stateServer) leave(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sees(uid) {
		s.all--
	}
	s.readers[uid]--
	if s.readers[uid] == 0 {
		delete(s.readers, uid)
	}
}

// A patient gives each write of an answer the same time.
type patient struct {
	c    *net.UnixConn
	time time.Duration
}

func (p patient) Write(b []byte) (int, error) {
	_ = p.c.SetWriteDeadline(time.Now().Add(p.time))
	return p.c.Write(b)
}

// answer reads the request of a connection, and writes the answer.
func (s *stateServer) answer(c *net.UnixConn, uid uint32) {
	w := bufio.NewWriterSize(patient{c, s.patience}, 64<<10)
	out := json.NewEncoder(w)
	last := &state.Line{End: true}
	r, err := s.request(c)
	if err != nil {
		last = &state.Line{Refused: err.Error()}
	} else {
		err := s.lines(uid, r, func(l *state.Line) error {
			if l.Refused != "" {
				last = l // in place of End
				return nil
			}
			return out.Encode(l)
		})
		if err != nil {
			return // the reader has gone, or does not read
		}
	}
	if out.Encode(last) == nil {
		_ = w.Flush()
	}
	if err != nil {
		drain(c, s.patience)
	}
}

// lines gives the lines of an answer.
func (s *stateServer) lines(uid uint32, r *state.Request, give func(*state.Line) error) error {
	switch {
	case !r.Fabric:
		return s.e.State(uid, r, give)
	case s.fabric == nil:
		return give(&state.Line{Refused: "this engine has no links to others"})
	case r.Ring != nil || len(r.Kinds) > 0 || r.PID != 0 || r.Queue != 0:
		return give(&state.Line{Refused: "engines of the fabric are asked for alone, without kinds, pid, queue and ring"})
	}
	for _, p := range s.fabric() {
		if p.Summary != nil && !sees(uid) {
			// Users of this machine see programs of their own (nicless status), and users of others have no
			// numbers here.
			counts := *p.Summary
			counts.Disclosed, counts.Programs = false, nil
			p.Summary = &counts
		}
		if err := give(&state.Line{Peer: &p}); err != nil {
			return err
		}
	}
	return nil
}

// request reads a request: a line of JSON.
func (s *stateServer) request(c *net.UnixConn) (*state.Request, error) {
	_ = c.SetReadDeadline(time.Now().Add(s.patience))
	in := bufio.NewReaderSize(c, state.MostRequest)
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("a request of more than %d bytes", state.MostRequest)
	case err != nil && len(line) == 0:
		return nil, fmt.Errorf("no request came in %v: a line of JSON such as {}", s.patience)
	}
	var r state.Request
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("the request is not one: %w", err)
	}
	return &r, nil
}
