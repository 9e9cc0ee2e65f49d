//go:build linux && (amd64 || arm64)

package programs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// serveTCP listens at an address, takes one connection, and prints how much came and its SHA-256.
func serveTCP(args []string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(args[0], "0"))
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	fmt.Println("port", port)
	c, err := l.Accept()
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, struct{ io.Reader }{c}, make([]byte, 1<<20))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c, "got", n)
	fmt.Printf("copied %d %x\n", n, hash.Sum(nil))
	return errors.Join(err, c.Close())
}

// sendTCP sends as many bytes as the second argument says to the address that the first one says,
// and prints the same as serveTCP. The third argument is the seed of the bytes.
func sendTCP(args []string) error {
	size, err1 := strconv.ParseInt(args[1], 10, 64)
	seed, err2 := strconv.ParseUint(args[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	began := time.Now()
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	hash, random := sha256.New(), rand.NewChaCha8([32]byte{byte(seed)})
	fmt.Println("connected")
	n, err := io.CopyBuffer(io.MultiWriter(c, hash), io.LimitReader(random, size), make([]byte, 1<<20))
	if err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		return err
	}
	var got int64
	if _, err := fmt.Fscanf(c, "got %d\n", &got); err != nil || got != n {
		return fmt.Errorf("sent %d bytes, the other end got %d (%v)", n, got, err)
	}
	fmt.Printf("copied %d %x\n", n, hash.Sum(nil))
	fmt.Printf("%.2f Gbit/s with SHA-256\n", float64(n)*8/time.Since(began).Seconds()/1e9)
	return c.Close()
}
