package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// Ranks are connected by UC. One dies. UC has no acknowledgements, so the other gets neither an
// error completion nor an event, and its loop that waits for the next message never ends.
var mlx3910 = incident{
	name:  "mlx-3910",
	link:  "https://github.com/ml-explore/mlx/issues/3910",
	title: "a rank dies, and on UC the other one spins for ever",
	play: func(s *stage) (string, error) {
		b, err := s.side(nicless.QPConfig{Type: nicless.UC}, nicless.CQConfig{})
		if err != nil {
			return "", err
		}
		rank := exec.Command("/proc/self/exe", "rank", s.socket)
		rank.Stderr = os.Stderr
		in, err := rank.StdinPipe()
		if err != nil {
			return "", err
		}
		out, err := rank.StdoutPipe()
		if err != nil {
			return "", err
		}
		if err := rank.Start(); err != nil {
			return "", err
		}
		for slot := range messages {
			wr := &nicless.RecvWR{ID: uint64(slot), SGE: []nicless.SGE{b.mr.SGE(64*slot, 64)}}
			if err := b.qp.PostRecv(wr); err != nil {
				return "", err
			}
		}
		peer, err := wait(b.qp, out, in)
		if err != nil {
			return "", err
		}
		s.numbers = append(s.numbers, peer.QPN)
		end := rank.Wait()
		s.print("the other rank has ended: %v", end)
		for n := range messages {
			c, ok, err := b.poll(patience)
			if err != nil {
				return "", err
			}
			if !ok {
				return fmt.Sprintf("%d of %d messages came, then neither an error nor an event", n, messages), nil
			}
			s.print("message %d: %v", c.ID, c.Status)
		}
		return "", nil
	},
}

const messages = 3

// rank is the other process: it sends the messages.
func rank(socket string) error {
	nic, err := nicless.Dial(socket)
	if err != nil {
		return err
	}
	defer nic.Close()
	s := &stage{out: io.Discard, nic: nic}
	s.pd, err = nic.AllocPD()
	if err != nil {
		return err
	}
	a, err := s.side(nicless.QPConfig{Type: nicless.UC}, nicless.CQConfig{})
	if err != nil {
		return err
	}
	if err := begin(a.qp, os.Stdin, os.Stdout); err != nil {
		return err
	}
	for i := range uint64(messages) {
		if err := a.post(i, nicless.Send, nil, 0, 8); err != nil {
			return err
		}
		c, ok, err := a.poll(20 * patience)
		if err != nil || !ok || c.Status != cqe.StatusSuccess {
			return fmt.Errorf("message %d: %v, %w", i, c.Status, err)
		}
	}
	return nil
}

// wait connects qp with the queue pair of the other rank, and then tells it to begin, by its
// own descriptor: a message on UC that comes before its receiver is connected is lost.
func wait(qp *nicless.QP, r io.Reader, w io.Writer) (peer nicless.Descriptor, err error) {
	if err := json.NewDecoder(r).Decode(&peer); err != nil {
		return peer, err
	}
	if err := qp.Connect(peer, nicless.Connection{}); err != nil {
		return peer, err
	}
	return peer, json.NewEncoder(w).Encode(qp.Descriptor())
}

// begin connects qp with the queue pair of a rank that waits.
func begin(qp *nicless.QP, r io.Reader, w io.Writer) error {
	var peer nicless.Descriptor
	if err := json.NewEncoder(w).Encode(qp.Descriptor()); err != nil {
		return err
	}
	if err := json.NewDecoder(r).Decode(&peer); err != nil {
		return err
	}
	return qp.Connect(peer, nicless.Connection{})
}
