//go:build linux && (amd64 || arm64)

package rack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// RelayArgument is the first argument of a process that is to be a relay.
const RelayArgument = "rack-relay"

// A Way is what a relay does to IP packets, whatever protocol they carry, in each of the two directions.
type Way struct {
	Delay time.Duration // of each packet
	Rate  float64       // bytes of IP that the line carries in a second; 0: it takes no time
	Queue time.Duration // how long a packet may wait for the line: one that would wait longer is dropped
	Loss  float64       // part of the packets that is lost
	Seed  uint64        // of the numbers that say which
}

// Carried is what a relay has done to the packets of one direction.
type Carried struct {
	Packets, Bytes uint64 // that came
	Lost           uint64 // packets, by chance
	Dropped        uint64 // packets that would have waited too long
}

// ends are the names of the two network devices of a relay. Each of them is moved to a host.
var ends = [2]string{"path0", "path1"}

const (
	mostBytes = 1500  // bytes of an IP packet
	waiting   = 16384 // packets that a relay keeps for one direction
)

// A lane carries the packets of one direction.
type lane struct {
	from, to int // descriptors of the network devices

	mu      sync.Mutex
	filled  sync.Cond // a packet has come
	way     Way
	rng     *rand.Rand
	carried Carried
	free    time.Time // when the line has sent what waits for it
	packets [waiting]delayed
	head, n int
}

// A delayed packet arrives at a time.
type delayed struct {
	at   time.Time
	size int
	data [mostBytes]byte
}

// Relay is the main function of a relay between two network devices, which it makes in its namespace. For
// each line with a Way that it reads, it writes a line with what it has carried since the line before, from
// the first to the second device and back. It ends with its input.
func Relay(input io.Reader, output io.Writer) error {
	var fds [2]int
	for i, name := range ends {
		fd, err := openEnd(name)
		if err != nil {
			return err
		}
		fds[i] = fd
	}
	lanes := [2]*lane{{from: fds[0], to: fds[1]}, {from: fds[1], to: fds[0]}}
	failed := make(chan error, 4)
	for i, l := range lanes {
		l.filled.L = &l.mu
		l.change(Way{}, i)
		go func() { failed <- l.take() }()
		go func() { failed <- l.give() }()
	}
	go func() { failed <- serve(lanes, input, output) }()
	return <-failed
}

// serve answers the lines of the input, until it ends.
func serve(lanes [2]*lane, input io.Reader, output io.Writer) error {
	if _, err := fmt.Fprintln(output, "up"); err != nil {
		return err
	}
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		var w Way
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return err
		}
		var carried [2]Carried
		for i, l := range lanes {
			carried[i] = l.change(w, i)
		}
		if err := json.NewEncoder(output).Encode(carried); err != nil {
			return err
		}
	}
	return lines.Err()
}

// openEnd makes a network device in the namespace of the thread, and returns its descriptor. Packets have no
// headers before those of IP, and no offloads, so each is as long as on a real line.
func openEnd(name string) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("network device %s: %w", name, err)
	}
	return fd, nil
}

// change lets the lane do something else to packets, and returns what it has carried until now.
func (l *lane) change(w Way, direction int) (until Carried) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.way, l.rng = w, rand.New(rand.NewPCG(w.Seed, uint64(direction)))
	until, l.carried = l.carried, Carried{}
	return until
}

// take reads packets from the one device.
func (l *lane) take() error {
	var data [mostBytes]byte
	for {
		n, err := unix.Read(l.from, data[:])
		switch err {
		case nil:
			if err := l.put(data[:n], time.Now()); err != nil {
				return err
			}
		case unix.EAGAIN:
			if err := await(l.from); err != nil {
				return err
			}
		case unix.EINTR:
		default:
			return fmt.Errorf("read from a network device: %w", err)
		}
	}
}

// await waits until a descriptor can be read. A device that is down, as while it is moved to another
// namespace, cannot.
func await(fd int) error {
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for a network device: %w", err)
	}
	return nil
}

// put decides about a packet that has come now.
func (l *lane) put(data []byte, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carried.Packets++
	l.carried.Bytes += uint64(len(data))
	at := now
	if l.way.Rate > 0 {
		if l.free.Before(now) {
			l.free = now
		}
		if l.free.Sub(now) > l.way.Queue {
			l.carried.Dropped++
			return nil
		}
		l.free = l.free.Add(time.Duration(float64(len(data)) / l.way.Rate * float64(time.Second)))
		at = l.free
	}
	at = at.Add(l.way.Delay)
	switch {
	case l.rng.Float64() < l.way.Loss:
		l.carried.Lost++
	case l.n == waiting:
		l.carried.Dropped++
	case l.n == 0 && !at.After(now):
		return l.write(data)
	default:
		p := &l.packets[(l.head+l.n)%waiting]
		p.at, p.size = at, copy(p.data[:], data)
		l.n++
		l.filled.Signal()
	}
	return nil
}

// give writes packets to the other device, each at its time.
func (l *lane) give() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for l.n == 0 {
			l.filled.Wait()
		}
		p := &l.packets[l.head]
		if left := time.Until(p.at); left > 0 {
			l.mu.Unlock()
			time.Sleep(left)
			l.mu.Lock()
		}
		if err := l.write(p.data[:p.size]); err != nil {
			return err
		}
		l.head = (l.head + 1) % waiting
		l.n--
	}
}

// write writes a packet to the other device. One that is down loses it.
func (l *lane) write(data []byte) error {
	for {
		_, err := unix.Write(l.to, data)
		switch err {
		case nil, unix.EIO, unix.ENOBUFS, unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("write to a network device: %w", err)
		}
	}
}
