//go:build linux && (amd64 || arm64)

package rack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TCPArgument is the first argument of a process that sends or receives data by TCP. Its address, the number
// of bytes, and the congestion control follow; the last one only for a process that sends.
const TCPArgument = "rack-tcp"

// tcpPort is where the receiver listens.
const tcpPort = 7

// dataSeed is that of the data that TCP and RDMA carry over a path.
var dataSeed = [32]byte{7: 1}

// piece is how much of the data is made and compared at a time.
const piece = 1 << 20

// TCP is the main function of a process that sends or receives data by TCP.
func TCP(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: ADDRESS BYTES [CONGESTION]")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	to := net.JoinHostPort(args[0], strconv.Itoa(tcpPort))
	if len(args) == 2 {
		return receive(to, size)
	}
	return send(to, size, args[2])
}

// receive takes the data of one connection, compares it, and answers with one byte.
func receive(at string, size int) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	g := rand.NewChaCha8(dataSeed)
	want, got := make([]byte, piece), make([]byte, piece)
	for off := 0; off < size; off += piece {
		n := min(piece, size-off)
		_, _ = g.Read(want[:n])
		if _, err := io.ReadFull(c, got[:n]); err != nil {
			return fmt.Errorf("after %d bytes: %w", off, err)
		}
		if !bytes.Equal(got[:n], want[:n]) {
			return fmt.Errorf("the %d bytes from %d on are wrong", n, off)
		}
	}
	_, err = c.Write([]byte{1})
	return err
}

// send sends the data by a new connection, and prints how long that took, until the answer.
func send(to string, size int, control string) error {
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
		})
		return errors.Join(failed, err)
	}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	data := make([]byte, min(size, piece))
	g := rand.NewChaCha8(dataSeed)
	began := time.Now()
	for off := 0; off < size; off += piece {
		n := min(piece, size-off)
		_, _ = g.Read(data[:n])
		if _, err := c.Write(data[:n]); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(bufio.NewReader(c), make([]byte, 1)); err != nil {
		return fmt.Errorf("the receiver has not answered: %w", err)
	}
	fmt.Println(time.Since(began))
	return nil
}

// controls returns the congestion controls that this kernel gives to everybody, of those that are compared.
func controls() (list []string, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	for _, f := range bytes.Fields(b) {
		if c := string(f); c == "cubic" || c == "bbr" {
			list = append(list, c)
		}
	}
	return list, err
}
