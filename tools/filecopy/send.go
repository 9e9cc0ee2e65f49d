//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// send runs the sender alone (-role send).
func send(ctx context.Context, o options) error {
	in, size, err := openInput(ctx, o.in)
	if err != nil {
		return err
	}
	defer in.Close()
	return sendFile(ctx, in, size, o)
}

// openInput opens the input file and returns its size, or -1 for a pipe.
func openInput(ctx context.Context, path string) (*os.File, int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	size := st.Size()
	switch st.Mode().Type() {
	case 0:
	case fs.ModeNamedPipe:
		size = -1
	case fs.ModeDir:
		return nil, 0, hint{fmt.Errorf("%s is a directory", path), "name a file in it"}
	default:
		return nil, 0, hint{fmt.Errorf("%s is neither a regular file nor a pipe", path),
			"a device may have no end; pipe what is wanted of it, and give -in /dev/stdin"}
	}
	// Opening a pipe waits until another process opens it for writing.
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(path)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, size, o.err
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
}

// A sender moves one file into the ring of a receiver.
type sender struct {
	nic
	ctx     context.Context
	chunk   int
	ring    *nicless.MR
	remote  nicless.RemoteMemory // the receiver's ring
	sent    uint64               // chunks posted
	answer  time.Duration        // how long to wait for any completion
	granted uint64               // chunks whose slots the receiver has given back
	acked   uint64               // writes completed
}

// sendFile connects to the receiver at o.peer and sends it the whole input file.
func sendFile(ctx context.Context, in *os.File, size int64, o options) error {
	n, err := dialEngine(o.socket, "sender")
	if err != nil {
		return err
	}
	defer n.Close()
	conn, err := net.Dial("unix", o.peer)
	switch {
	case errors.Is(err, syscall.EPROTOTYPE):
		return fmt.Errorf("%s is a socket of another kind, not a receiver's", o.peer)
	case err != nil:
		return hint{fmt.Errorf("no receiver at %s: %w", o.peer, err), "start it first: filecopy -role recv"}
	}
	defer conn.Close()
	l := newLink(conn, "receiver")
	n.who["receiver"] = peerOf(conn)
	n.begun = n.who.mark()
	err = transfer(ctx, in, size, o.answer, n, l)
	if err != nil {
		err = n.who.decide(err, n.begun)
		_ = l.send(message{Error: err.Error()})
	}
	return err
}

// transfer sends the whole input file, waits for the receiver's result, and prints it.
func transfer(parent context.Context, in *os.File, size int64, answer time.Duration, n nic, l *link) error {
	s, end, err := join(parent, n, l)
	if err != nil {
		return err
	}
	ctx, last := watch(parent, n, l)
	s.ctx, s.answer = ctx, answer
	// When ctx ends, a read from a pipe whose writer pauses must end too.
	defer context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })()
	start := time.Now()
	sum := sha256.New()
	total, err := s.stream(in, sum, newBar(size))
	if err == nil {
		err = s.finish(end, total, sum.Sum(nil))
	}
	var m message
	if err == nil {
		begun := n.who.mark()
		select {
		case m = <-last:
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(answer):
			err = n.who.decide(timeout(fmt.Sprintf("the receiver has all %d bytes, and has not told their SHA-256 in %v", total, answer)), begun)
		}
	}
	if err != nil {
		return reason(ctx, err)
	}
	took := time.Since(start)
	if mine := hex.EncodeToString(sum.Sum(nil)); mine != m.SHA256 {
		return newFault(wrongBytes, "SHA-256 is %s here and %s at the receiver", mine, m.SHA256)
	}
	fmt.Printf("copied %d bytes in %d writes of at most %d: %.3f s, %.0f MB/s\n",
		total, s.sent, s.chunk, took.Seconds(), float64(total)/1e6/took.Seconds())
	fmt.Printf("SHA-256 at both ends: %s\n", m.SHA256)
	return nil
}

// join connects the queue pair with the receiver at the other end of l. The result end is the
// receiver's memory for the trailer.
func join(ctx context.Context, n nic, l *link) (s *sender, end nicless.RemoteMemory, err error) {
	me := n.qp.Descriptor()
	if err := l.send(message{QP: &me}); err != nil {
		return nil, end, err
	}
	m, err := l.hello(ctx)
	if err != nil {
		return nil, end, err
	}
	s = &sender{nic: n, ctx: ctx, chunk: m.Chunk, answer: time.Minute}
	s.remote, err = m.QP.Find("ring")
	if err != nil {
		return nil, end, err
	}
	if end, err = m.QP.Find("trailer"); err != nil {
		return nil, end, err
	}
	if s.chunk < 1 || s.chunk > maxChunk || s.remote.Length < slots*uint64(s.chunk) ||
		end.Length < trailerSize {
		return nil, end, fmt.Errorf("the receiver offers slots of %d bytes in %d, and %d for the trailer", s.chunk, s.remote.Length, end.Length)
	}
	s.ring, err = n.pd.RegisterMemory(s.chunk*slots, nicless.LocalWrite)
	if err != nil {
		return nil, end, err
	}
	for range slots { // for credits, which have no payload
		if err := n.qp.PostRecv(&nicless.RecvWR{}); err != nil {
			return nil, end, err
		}
	}
	return s, end, n.qp.Connect(*m.QP, nicless.Connection{})
}

// stream posts a write for every chunk of the input, as soon as the receiver has a free slot.
func (s *sender) stream(in io.Reader, sum hash.Hash, bar *progressbar.ProgressBar) (total int64, err error) {
	defer bar.Clear()
	for {
		for s.sent-s.granted == slots {
			if err := s.wait(); err != nil {
				return total, err
			}
		}
		// If the receiver's slot is free, this side's slot of the same number is free too,
		// because the write from it is complete.
		at := int(s.sent%slots) * s.chunk
		data := s.ring.Bytes()[at : at+s.chunk]
		n, eof := io.ReadFull(in, data)
		if eof != nil && eof != io.EOF && eof != io.ErrUnexpectedEOF {
			return total, eof
		}
		if n > 0 {
			if err := s.qp.PostSend(&nicless.SendWR{
				ID:         s.sent,
				Op:         nicless.WriteImm,
				Flags:      nicless.Signaled,
				SGE:        []nicless.SGE{s.ring.SGE(at, n)},
				RemoteAddr: s.remote.Addr + uint64(at),
				RKey:       s.remote.RKey,
				Imm:        uint32(s.sent % trailer),
			}); err != nil {
				return total, err
			}
			s.sent++
			total += int64(n)
			sum.Write(data[:n]) // at the same time as the engine moves the data
			_ = bar.Add(n)
		}
		if eof != nil {
			return total, nil
		}
	}
}

// finish writes the trailer and waits until every write has completed.
func (s *sender) finish(end nicless.RemoteMemory, total int64, sum []byte) error {
	if err := s.qp.PostSend(&nicless.SendWR{
		ID:         s.sent,
		Op:         nicless.WriteImm,
		Flags:      nicless.Signaled,
		Data:       append(binary.BigEndian.AppendUint64(nil, uint64(total)), sum...),
		RemoteAddr: end.Addr,
		RKey:       end.RKey,
		Imm:        trailer,
	}); err != nil {
		return err
	}
	for s.acked <= s.sent {
		if err := s.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for completions of writes, and of receives that carry a credit.
func (s *sender) wait() error {
	var done [2 * slots]nicless.Completion
	n, err := s.poll(done[:])
	if err != nil {
		return err
	}
	for i := range done[:n] {
		if err := s.take(&done[i]); err != nil {
			return err
		}
	}
	return nil
}

// take takes the completion of a write, or of a receive that carries a credit.
func (s *sender) take(c *nicless.Completion) error {
	if err := c.Err(); err != nil {
		return err
	}
	if c.Opcode != cqe.WCRecv {
		if err := outOfOrder("the completion of write", c.ID, s.acked, 1<<63); err != nil {
			return err
		}
		s.acked++
		return nil
	}
	// The immediate is the low 32 bits of the receiver's count of chunks, which grows by one each time.
	if err := outOfOrder("the credit for chunk", uint64(c.Imm-1), s.granted, 1<<32); err != nil {
		return err
	}
	s.granted++
	if s.granted > s.sent {
		return newFault(repeated, "the receiver is done with %d chunks of %d sent", s.granted, s.sent)
	}
	return s.qp.PostRecv(&nicless.RecvWR{})
}

// poll waits for completions. The sender waits only for the pending answers of receiver and engine, so there
// is a deadline. Only a wait that is not short is measured.
func (s *sender) poll(done []nicless.Completion) (n int, err error) {
	const short = 100 * time.Millisecond
	var begun mark
	for i, d := range []time.Duration{short, s.answer} {
		if i > 0 {
			begun = s.who.mark()
		}
		ctx, cancel := context.WithTimeout(s.ctx, d)
		n, err = s.cq.Wait(ctx, done)
		cancel()
		if s.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return n, err
		}
	}
	// The engine and the receiver may have answered just when the deadline passed.
	if n, err = s.cq.Poll(done); n > 0 || err != nil {
		return n, err
	}
	return 0, s.who.decide(timeout(fmt.Sprintf("of %d writes %d have completed, and %d chunks have a credit; nothing came for %v",
		s.sent, s.acked, s.granted, s.answer)), begun)
}

// newBar returns a progress bar, which is drawn only on a terminal. A size of -1 means that
// the size is not known.
func newBar(size int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetVisibility(term.IsTerminal(int(os.Stderr.Fd()))),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(50*time.Millisecond),
	)
}
