//go:build linux && (amd64 || arm64)

// Filecopy moves a file from one process to another by one-sided RDMA WRITEs.
//
//	go run ./examples/filecopy -in FILE -out FILE
//
// The sender, which is this process, starts the receiver. The two exchange descriptors of their queue pairs
// through the receiver's standard input and output. The receiver registers a ring of slots. The sender
// reads the file into its own ring, and writes each chunk into the receiver's slot of the same number with
// WRITE_IMM: the immediate wakes the receiver. The receiver writes the chunk to a temporary file beside the
// target, and gives the slot back with a credit, a SEND without payload. At the end the sender writes a
// trailer: the number of bytes and their SHA-256. The file gets its name only if the receiver has computed
// the same.
//
// An engine runs in the sender, unless -socket names one. With -to, the receiver is a client of another
// engine, and a link between the two carries the data. tools/filecopy also knows pipes, deadlines and
// verdicts.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

const (
	slots       = 16      // of each ring
	chunk       = 1 << 20 // bytes of a slot
	trailer     = 1 << 31 // the immediate of the trailer; any other is the number of a chunk modulo trailer
	trailerSize = 8 + sha256.Size
)

func main() {
	in := flag.String("in", "", "file to copy")
	out := flag.String("out", "", "file to make, or to replace")
	socket := flag.String("socket", "", "socket of an engine; none: one runs in this process")
	to := flag.String("to", "", "socket of the receiver's engine, if it has another one")
	receiver := flag.Bool("receiver", false, "receive, as filecopy starts itself")
	flag.Parse()
	if flag.NArg() > 0 || *out == "" || (!*receiver && *in == "") {
		fmt.Fprintln(os.Stderr, "filecopy: error: -in FILE and -out FILE are needed")
		os.Exit(2)
	}
	run := func() error { return send(*in, *out, *socket, *to) }
	if *receiver {
		run = func() error {
			return receive(*to, *out, &pipe{json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)})
		}
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "filecopy: error: %v\n", err)
		os.Exit(1)
	}
}

// A pipe connects the two processes, outside the queue pairs. It carries JSON.
type pipe struct {
	*json.Encoder
	*json.Decoder
}

// An end is what both sides have: a client of an engine with one queue pair, and a ring of slots.
type end struct {
	nic  *nicless.Context
	pd   *nicless.PD
	cq   *nicless.CQ
	qp   *nicless.QP
	ring *nicless.MR
	done [2 * slots]nicless.Completion
}

func dial(socket string) (e *end, err error) {
	e = &end{}
	e.nic, err = nicless.Dial(socket)
	if err != nil {
		return nil, err
	}
	e.pd, err = e.nic.AllocPD()
	if err != nil {
		return nil, err
	}
	e.cq, err = e.nic.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, err
	}
	e.ring, err = e.pd.RegisterMemory(slots*chunk, nicless.LocalWrite|nicless.RemoteWrite)
	if err != nil {
		return nil, err
	}
	e.qp, err = e.pd.CreateQP(nicless.QPConfig{SendCQ: e.cq})
	if err != nil {
		return nil, err
	}
	for range slots + 1 { // for chunks and the trailer, or for credits
		err = errors.Join(err, e.qp.PostRecv(&nicless.RecvWR{}))
	}
	return e, err
}

// connect sends this side's descriptor to the other one, and connects with the one that it receives.
func (e *end) connect(p *pipe, memory ...nicless.RemoteMemory) (peer nicless.Descriptor, err error) {
	if err := errors.Join(p.Encode(e.qp.Descriptor(memory...)), p.Decode(&peer)); err != nil {
		return peer, fmt.Errorf("descriptors: %w", err)
	}
	return peer, e.qp.Connect(peer, nicless.Connection{})
}

// wait waits for completions, all of which are successes.
func (e *end) wait() ([]nicless.Completion, error) {
	n, err := e.cq.Wait(context.Background(), e.done[:])
	for i := range e.done[:n] {
		err = errors.Join(err, e.done[i].Err())
	}
	return e.done[:n], err
}

// send starts an engine and a receiver, sends the file, and checks what the receiver has got.
func send(in, out, socket, to string) error {
	file, err := os.Open(in)
	if err != nil {
		return err
	}
	defer file.Close()
	if socket == "" {
		dir, err := os.MkdirTemp("", "nicless-filecopy-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		socket = filepath.Join(dir, "engine.sock")
		ready := make(chan error, 2)
		go func() {
			ready <- nicless.Serve(context.Background(), socket, 0o600, nicless.Config{},
				func() { ready <- nil })
		}()
		if err := <-ready; err != nil {
			return err
		}
	}
	if to == "" {
		to = socket
	}
	cmd := exec.Command("/proc/self/exe", "-receiver", "-to", to, "-out", out)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		return err
	}
	start := time.Now()
	sum := sha256.New()
	p := &pipe{json.NewEncoder(stdin), json.NewDecoder(stdout)}
	total, err := sendFile(file, socket, sum, p)
	var theirs []byte
	if err == nil {
		err = p.Decode(&theirs)
	}
	_ = stdin.Close() // now the receiver may end
	if err := errors.Join(cmd.Wait(), err); err != nil {
		return err // the receiver has printed its own error
	}
	if !bytes.Equal(sum.Sum(nil), theirs) {
		return fmt.Errorf("SHA-256 is %x here and %x at the receiver", sum.Sum(nil), theirs)
	}
	took := time.Since(start).Seconds()
	fmt.Printf("copied %d bytes from pid %d to pid %d in %.3f s, %.0f MB/s\nSHA-256 at both ends: %x\n",
		total, os.Getpid(), cmd.Process.Pid, took, float64(total)/1e6/took, theirs)
	return nil
}

// sendFile writes all chunks, each as soon as its slot is free, and the trailer.
func sendFile(file io.Reader, socket string, sum hash.Hash, p *pipe) (total uint64, err error) {
	e, err := dial(socket)
	if err != nil {
		return 0, err
	}
	defer e.nic.Close()
	peer, err := e.connect(p)
	if err != nil {
		return 0, err
	}
	ring, err := peer.Find("ring")
	last, err2 := peer.Find("trailer")
	if err := errors.Join(err, err2); err != nil {
		return 0, err
	}
	var sent, written, credits uint64
	wait := func() error {
		done, err := e.wait()
		for _, c := range done {
			if c.Opcode != cqe.WCRecv {
				written++
				continue
			}
			credits++
			err = errors.Join(err, e.qp.PostRecv(&nicless.RecvWR{}))
		}
		return err
	}
	for eof := false; !eof; {
		for sent-credits == slots {
			if err := wait(); err != nil {
				return total, err
			}
		}
		at := int(sent%slots) * chunk
		data := e.ring.Bytes()[at : at+chunk]
		n, err := io.ReadFull(file, data)
		if eof = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !eof {
			return total, err
		}
		if n == 0 {
			break
		}
		if err := e.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Flags: nicless.Signaled,
			SGE:        []nicless.SGE{e.ring.SGE(at, n)},
			RemoteAddr: ring.Addr + uint64(at), RKey: ring.RKey, Imm: uint32(sent % trailer)}); err != nil {
			return total, err
		}
		sent, total = sent+1, total+uint64(n)
		sum.Write(data[:n]) // while the engine moves the data
	}
	if err := e.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Flags: nicless.Signaled,
		RemoteAddr: last.Addr, RKey: last.RKey,
		Imm: trailer, Data: sum.Sum(binary.BigEndian.AppendUint64(nil, total))}); err != nil {
		return total, err
	}
	for written <= sent {
		if err := wait(); err != nil {
			return total, err
		}
	}
	return total, nil
}

// receive receives a file, and sends its SHA-256.
func receive(socket, out string, p *pipe) error {
	e, err := dial(socket)
	if err != nil {
		return err
	}
	end, err := e.pd.RegisterMemory(trailerSize, nicless.LocalWrite|nicless.RemoteWrite)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(out), ".filecopy-")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // unless it has got its name
	defer part.Close()
	if _, err := e.connect(p, e.ring.Remote("ring"), end.Remote("trailer")); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = p.Decode(new(any)) // until the sender closes the pipe, or has ended
		_ = e.nic.Close()
		close(gone)
	}()
	sum, total, taken := sha256.New(), uint64(0), uint64(0)
	for ended := false; !ended; {
		done, err := e.wait()
		if err != nil {
			return err
		}
		for _, c := range done {
			if c.Opcode != cqe.WCRecvRDMAImm { // a credit has reached the sender
				continue
			}
			if ended = c.Imm == trailer; ended {
				break
			}
			if uint64(c.Imm) != taken%trailer || c.ByteLen > chunk {
				return fmt.Errorf("chunk %d of %d bytes came, %d was next", c.Imm, c.ByteLen, taken)
			}
			data := e.ring.Bytes()[taken%slots*chunk:][:c.ByteLen]
			sum.Write(data)
			if _, err := part.Write(data); err != nil {
				return err
			}
			total, taken = total+uint64(c.ByteLen), taken+1
			if err := errors.Join(e.qp.PostRecv(&nicless.RecvWR{}),
				e.qp.PostSend(&nicless.SendWR{Op: nicless.SendImm, Flags: nicless.Signaled})); err != nil {
				return err
			}
		}
	}
	want := sum.Sum(binary.BigEndian.AppendUint64(nil, total))
	if !bytes.Equal(end.Bytes()[:trailerSize], want) {
		return fmt.Errorf("length and SHA-256 are %x here and %x at the sender: the copy is not kept", want, end.Bytes()[:trailerSize])
	}
	if err := errors.Join(part.Chmod(0o644), part.Close(), os.Rename(part.Name(), out)); err != nil {
		return err
	}
	err = p.Encode(sum.Sum(nil))
	<-gone // the queue pair is there until all writes of the sender have completed
	return err
}
