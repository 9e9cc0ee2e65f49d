// Write is the smallest program with two processes. One process, the owner, registers
// memory. The other, the writer, writes a greeting into that memory by RDMA WRITE. They
// share only the socket of an engine, which runs in the owner's process here.
//
//	go run ./examples/write
//
// The owner starts the writer. The two exchange descriptors of their queue pairs, as
// JSON, through the writer's standard input and output. The owner takes no part in the
// write itself. It checks its memory when the writer has ended, and fails if the
// greeting is not there.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/nicless/nicless"
)

const greeting = "hello from the other process"

const usage = `usage:
  write                 everything: an engine, the owner of memory, and a writer
  write writer SOCKET   the writer alone, as the owner starts it
`

func main() {
	var err error
	args := os.Args[1:]
	switch {
	case len(args) == 0:
		err = owner()
	case len(args) == 2 && args[0] == "writer":
		err = writer(args[1], os.Stdin, os.Stdout)
	case slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
		fmt.Print(usage)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "write: error: %v\n", err)
		os.Exit(1)
	}
}

// owner registers memory, starts a writer, and checks what the writer wrote.
func owner() error {
	dir, err := os.MkdirTemp("", "nicless-write-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "engine.sock")
	if err := startEngine(socket); err != nil {
		return err
	}
	pd, qp, _, err := dial(socket)
	if err != nil {
		return err
	}
	memory, err := pd.RegisterMemory(4096, nicless.LocalWrite|nicless.RemoteWrite)
	if err != nil {
		return err
	}

	cmd := exec.Command("/proc/self/exe", "writer", socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	me := qp.Descriptor(memory.Remote("mailbox"))
	text, _ := json.Marshal(me)
	fmt.Printf("owner  (pid %d) sends its descriptor\n  %s\n", os.Getpid(), text)
	_, err = connect(qp, me, out, in)
	_ = in.Close() // a writer that still waits for input gets an end of file
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if err != nil {
		return err
	}
	fmt.Printf("writer (pid %d) has written %d bytes to the mailbox\n", cmd.Process.Pid, len(greeting))

	if got := string(memory.Bytes()[:len(greeting)]); got != greeting {
		return fmt.Errorf("the mailbox holds %q, not %q", got, greeting)
	}
	fmt.Printf("owner  (pid %d) finds %q\n", os.Getpid(), greeting)
	return nil
}

// writer writes the greeting into the memory of the owner, which is at the other end of in
// and out.
func writer(socket string, in io.Reader, out io.Writer) error {
	_, qp, cq, err := dial(socket)
	if err != nil {
		return err
	}
	peer, err := connect(qp, qp.Descriptor(), in, out)
	if err != nil {
		return err
	}
	mailbox, err := peer.Find("mailbox")
	if err != nil {
		return err
	}
	if err := qp.PostSend(&nicless.SendWR{
		Op:         nicless.Write,
		Flags:      nicless.Signaled,
		Data:       []byte(greeting), // inline: the WQE contains it
		RemoteAddr: mailbox.Addr,
		RKey:       mailbox.RKey,
	}); err != nil {
		return err
	}
	var done [1]nicless.Completion
	if _, err := cq.Wait(context.Background(), done[:]); err != nil {
		return err
	}
	return done[0].Err()
}

// dial makes a client of the engine with one queue pair, which both sides need.
func dial(socket string) (*nicless.PD, *nicless.QP, *nicless.CQ, error) {
	nic, err := nicless.Dial(socket)
	if err != nil {
		return nil, nil, nil, err
	}
	pd, err := nic.AllocPD()
	if err != nil {
		return nil, nil, nil, err
	}
	cq, err := nic.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, nil, nil, err
	}
	qp, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	return pd, qp, cq, err
}

// connect sends the peer the descriptor of this side, and connects qp with the queue pair
// that the peer's answer describes.
func connect(qp *nicless.QP, me nicless.Descriptor, r io.Reader,
	w io.Writer) (peer nicless.Descriptor, err error) {
	if err := json.NewEncoder(w).Encode(me); err != nil {
		return peer, err
	}
	if err := json.NewDecoder(r).Decode(&peer); err != nil {
		return peer, fmt.Errorf("descriptor of the peer: %w", err)
	}
	return peer, qp.Connect(peer, nicless.Connection{})
}

// startEngine starts an engine that listens at the socket until the program ends. "nicless
// engine --socket PATH" does the same in another process.
func startEngine(socket string) error {
	ready, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		failed <- nicless.Serve(context.Background(), socket, 0o600, nicless.Config{},
			func() { close(ready) })
	}()
	select {
	case <-ready:
		return nil
	case err := <-failed:
		return err
	}
}
