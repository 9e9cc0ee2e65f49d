//go:build linux && (amd64 || arm64)

package programs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// rawProtocol is a protocol number for experiments (RFC 3692): its packets have no header behind that of IP.
const rawProtocol = "253"

// listen opens a socket for datagrams at an address: of UDP, or of IP itself.
func listen(kind, address string) (net.PacketConn, error) {
	if kind == "raw" {
		network := "ip4:"
		if strings.Contains(address, ":") {
			network = "ip6:"
		}
		return net.ListenPacket(network+rawProtocol, address)
	}
	return net.ListenPacket("udp", net.JoinHostPort(address, "0"))
}

// echoUDP sends every datagram back, until it is killed. Its arguments are the kind and the address.
func echoUDP(args []string) error {
	c, err := listen(args[0], args[1])
	if err != nil {
		return err
	}
	port := "0"
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
		port = strconv.Itoa(a.Port)
	}
	fmt.Println("port", port)
	b := make([]byte, 65536)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(b[:n], from); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
}

// askUDP sends one datagram after the other to echoUDP, and checks each echo. A datagram without an echo is
// sent again after ten seconds, because a network may lose some. Echoes are counted, so one that is only late
// is not lost: echoes come in the order of the datagrams, and those that have not come when the last one has,
// are lost. Arguments: kind, address, port, and sizes; a size can be a range FIRST-LAST.
func askUDP(args []string) error {
	to := net.Addr(&net.IPAddr{IP: net.ParseIP(args[1])})
	if args[0] == "udp" {
		port, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		to = &net.UDPAddr{IP: net.ParseIP(args[1]), Port: port}
	}
	own := "0.0.0.0"
	if strings.Contains(args[1], ":") {
		own = "::"
	}
	c, err := listen(args[0], own)
	if err != nil {
		return err
	}
	k := asker{c: c, to: to, missing: make(map[int]int)}
	for _, text := range args[3:] {
		low, high, isRange := strings.Cut(text, "-")
		first, err1 := strconv.Atoi(low)
		last, err2 := first, error(nil)
		if isRange {
			last, err2 = strconv.Atoi(high)
		}
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for size := first; size <= last; size++ {
			if err := k.ask(size); err != nil {
				return err
			}
		}
	}
	sent, lost, err := k.end()
	if err != nil {
		return err
	}
	fmt.Printf("sent %d, lost %d\n", sent, lost)
	return nil
}

// An asker sends datagrams to echoUDP and counts their echoes.
type asker struct {
	c       net.PacketConn
	to      net.Addr
	sent    int
	missing map[int]int // echoes that have not come, by size
	data, b [65536]byte
}

// ask sends a datagram, and again if it must, until an echo of its size comes.
func (k *asker) ask(size int) error {
	for tries, n := 0, -1; n != size; {
		if n < 0 { // not after an echo that was late
			tries++
			if tries > mostTries {
				return fmt.Errorf("a datagram of %d bytes had no echo, %d times", size, mostTries)
			}
			content(k.data[:size], uint64(size))
			if _, err := k.c.WriteTo(k.data[:size], k.to); err != nil {
				return fmt.Errorf("%d bytes: %w", size, err)
			}
			k.sent++
			k.missing[size]++
		}
		_ = k.c.SetReadDeadline(time.Now().Add(10 * time.Second))
		var err error
		if n, _, err = k.c.ReadFrom(k.b[:]); errors.Is(err, os.ErrDeadlineExceeded) {
			n = -1
			continue
		} else if err != nil {
			return err
		}
		content(k.data[:n], uint64(n))
		if k.missing[n] == 0 || !bytes.Equal(k.b[:n], k.data[:n]) {
			return fmt.Errorf("sent %d bytes, and %d others came back", size, n)
		}
		k.missing[n]--
	}
	return nil
}

// end returns how many datagrams were sent and lost. If echoes are missing, they are lost if one of another
// size comes that is asked for now.
func (k *asker) end() (sent, lost int, err error) {
	sent = k.sent
	late, marker := false, 0
	for _, n := range k.missing {
		late = late || n > 0
	}
	for k.missing[marker] > 0 {
		marker++
	}
	if late {
		if err := k.ask(marker); err != nil {
			return 0, 0, err
		}
	}
	delete(k.missing, marker)
	for _, n := range k.missing {
		lost += n
	}
	return sent, lost, nil
}

// mostTries is how often a datagram is sent that has no echo. The test that started this program sees earlier
// that nothing moves, unless the machine is so busy that this is no surprise.
const mostTries = 30

// Datagrams of a flood begin with their number. The number endOfFlood asks for the result.
const endOfFlood = 1<<64 - 1

// countUDP receives a flood, checks each datagram, and answers how many came.
func countUDP(args []string) error {
	c, err := listen("udp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("port", c.LocalAddr().(*net.UDPAddr).Port)
	b, want := make([]byte, 65536), make([]byte, 65536)
	seen := make(map[uint64]bool)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		if n < 8 {
			return fmt.Errorf("a datagram of %d bytes; none has less than 8", n)
		}
		number := binary.BigEndian.Uint64(b)
		if number == endOfFlood {
			_, err := fmt.Fprintf(writerTo{c, from}, "%d", len(seen))
			fmt.Println("received", len(seen))
			return err
		}
		content(want[8:n], number)
		if seen[number] || !bytes.Equal(b[8:n], want[8:n]) {
			return fmt.Errorf("datagram %d of %d bytes came twice, or with other bytes", number, n)
		}
		seen[number] = true
	}
}

type writerTo struct {
	c  net.PacketConn
	to net.Addr
}

func (w writerTo) Write(b []byte) (int, error) { return w.c.WriteTo(b, w.to) }

// floodUDP sends datagrams without waiting, and prints how many came. Arguments: address, port,
// number of datagrams, size.
func floodUDP(args []string) error {
	count, err1 := strconv.Atoi(args[2])
	size, err2 := strconv.Atoi(args[3])
	c, err3 := net.Dial("udp", net.JoinHostPort(args[0], args[1]))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	b := make([]byte, size)
	began := time.Now()
	for i := range count {
		binary.BigEndian.PutUint64(b, uint64(i))
		content(b[8:], uint64(i))
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	spent := time.Since(began)
	binary.BigEndian.PutUint64(b, endOfFlood)
	// The question can be lost too; the test that started this program sees earlier that nothing moves.
	for range 10000 {
		if _, err := c.Write(b[:8]); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(b); err == nil {
			fmt.Printf("sent %d in %v, received %s\n", count, spent.Round(time.Millisecond), b[:n])
			return nil
		}
	}
	return errors.New("no answer")
}
