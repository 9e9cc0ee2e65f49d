//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A target is the output file, which gets its name when it is complete.
type target struct {
	*os.File
	path string
}

// partPath returns the path that the file has until it is complete. The path contains the pid of
// the receiver, so that the process that started the receiver can remove the file.
func partPath(path string, pid int) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.filecopy-%d", filepath.Base(path), pid))
}

// resolveTarget follows a symbolic link to the file that will be replaced.
func resolveTarget(path string) (string, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return "", hint{err, "make the directory first"}
		}
		return path, nil
	case err != nil:
		return "", err
	case st.IsDir():
		return "", hint{fmt.Errorf("%s is a directory", path), "name the file to be made in it"}
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file, and will not be replaced by one", path)
	}
	return path, nil
}

func createTarget(path string) (*target, error) {
	path, err := resolveTarget(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(partPath(path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &target{f, path}, nil
}

// keep gives the file its name.
func (t *target) keep() error {
	if err := t.Close(); err != nil {
		return err
	}
	return os.Rename(t.Name(), t.path)
}

// drop removes the file, unless it was kept.
func (t *target) drop() {
	_ = t.Close()
	_ = os.Remove(t.Name())
}

// receive runs the receiver, from opening its socket to giving the file its name.
func receive(ctx context.Context, o options) error {
	t, err := createTarget(o.out)
	if err != nil {
		return err
	}
	defer t.drop()
	n, err := dialEngine(o.socket, "receiver")
	if err != nil {
		return err
	}
	defer n.Close()
	l, err := accept(ctx, n, o.peer)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	n.who["sender"] = peerOf(l.conn)
	n.begun = n.who.mark()
	sum, err := takeFile(ctx, t, n, l, o.chunk)
	if err != nil {
		err = n.who.decide(err, n.begun)
		_ = l.send(message{Error: err.Error()})
		return err
	}
	fmt.Printf("%s is complete, SHA-256 %s\n", o.out, sum)
	// An error is ignored, because the copy is complete even if the sender is gone.
	_ = l.send(message{SHA256: sum})
	return nil
}

// accept waits at path for a sender, until the engine is gone.
func accept(ctx context.Context, n nic, path string) (*link, error) {
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, hint{err, "remove " + path + " if no other receiver is there"}
	}
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	fmt.Printf("receiver, pid %d, at %s\n", os.Getpid(), path)
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	accepted := make(chan struct{})
	defer close(accepted)
	go func() {
		select {
		case <-n.Done():
			_ = ln.Close()
		case <-accepted:
		}
	}()
	conn, err := ln.Accept()
	switch {
	case err == nil:
		return newLink(conn, "sender"), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, net.ErrClosed):
		return nil, errEngineGone
	}
	return nil, err
}

// A receiver puts chunks from its ring into a file.
type receiver struct {
	nic
	chunk   int
	ring    *nicless.MR
	trailer *nicless.MR
	sum     hash.Hash
	total   int64
	taken   uint64 // number of chunks taken
}

// takeFile receives the file from the sender at the other end of l and gives the file its
// name.
func takeFile(parent context.Context, t *target, n nic, l *link, chunk int) (sum string, err error) {
	peer, err := l.hello(parent)
	if err != nil {
		return "", err
	}
	r := receiver{nic: n, chunk: chunk, sum: sha256.New()}
	const access = nicless.LocalWrite | nicless.RemoteWrite
	r.ring, err = n.pd.RegisterMemory(chunk*slots, access)
	if err != nil {
		return "", err
	}
	r.trailer, err = n.pd.RegisterMemory(trailerSize, access)
	if err != nil {
		return "", err
	}
	for range slots + 1 { // each write with an immediate takes one receive: 16 chunks and the trailer
		if err := n.qp.PostRecv(&nicless.RecvWR{}); err != nil {
			return "", err
		}
	}
	// Connect before the sender gets our descriptor: the sender begins to write as soon as it
	// has the descriptor.
	if err := n.qp.Connect(*peer.QP, nicless.Connection{}); err != nil {
		return "", err
	}
	me := n.qp.Descriptor(r.ring.Remote("ring"), r.trailer.Remote("trailer"))
	if err := l.send(message{QP: &me, Chunk: chunk}); err != nil {
		return "", err
	}
	ctx, _ := watch(parent, n, l)
	if err := r.drain(ctx, t); err != nil {
		return "", reason(ctx, err)
	}
	if err := r.verify(); err != nil {
		return "", err
	}
	return hex.EncodeToString(r.sum.Sum(nil)), t.keep()
}

// drain takes chunks until the trailer has arrived.
func (r *receiver) drain(ctx context.Context, t *target) error {
	var done [2 * slots]nicless.Completion
	for {
		n, err := r.cq.Wait(ctx, done[:])
		if err != nil {
			return err
		}
		for i := range done[:n] {
			c := &done[i]
			failure := c.Err()
			switch {
			case failure != nil:
				return failure
			case c.Opcode == cqe.WCSend: // a credit has reached the sender
				continue
			case c.Imm == trailer:
				return nil
			case int(c.ByteLen) > r.chunk:
				return newFault(wrongBytes, "the sender wrote %d bytes as chunk %d; a slot has %d", c.ByteLen, c.Imm, r.chunk)
			}
			if err := outOfOrder("chunk", uint64(c.Imm), r.taken, trailer); err != nil {
				return err
			}
			if err := r.take(t, int(c.ByteLen)); err != nil {
				return err
			}
		}
	}
}

// take writes the next chunk, of n bytes, to the file and gives its slot back.
func (r *receiver) take(t *target, n int) error {
	at := int(r.taken%slots) * r.chunk
	data := r.ring.Bytes()[at : at+n]
	r.sum.Write(data)
	if _, err := t.Write(data); err != nil {
		return err
	}
	r.total += int64(n)
	r.taken++
	if err := r.qp.PostRecv(&nicless.RecvWR{}); err != nil {
		return err
	}
	return r.qp.PostSend(&nicless.SendWR{Op: nicless.SendImm, Flags: nicless.Signaled, Imm: uint32(r.taken)})
}

// verify compares the length and the SHA-256 of the received data with the trailer.
func (r *receiver) verify() error {
	said := r.trailer.Bytes()
	if size := binary.BigEndian.Uint64(said); size != uint64(r.total) {
		kind := lost
		if size < uint64(r.total) {
			kind = repeated
		}
		return newFault(kind, "the sender sent %d bytes, %d arrived", size, r.total)
	}
	if got, want := r.sum.Sum(nil), said[8:trailerSize]; !bytes.Equal(got, want) {
		return newFault(wrongBytes, "SHA-256 is %x here and %x at the sender: the copy is not kept", got, want)
	}
	return nil
}
