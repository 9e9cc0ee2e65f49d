//go:build linux && (amd64 || arm64)

package flood

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

// A Kind says what the datagrams of a flood hold.
type Kind string

// The kinds of floods.
const (
	Junk      Kind = "junk"     // random bytes, of which hardly any begin like a packet
	WrongICRC Kind = "icrc"     // a WRITE with a wrong ICRC
	UnknownQP Kind = "qp"       // a WRITE with a right ICRC to a queue pair that hardly exists
	Requests  Kind = "requests" // requests for connections (REQ) to queue pair 1, each with another number
)

// Kinds lists all kinds.
var Kinds = []Kind{Junk, WrongICRC, UnknownQP, Requests}

// Most is the longest flood, and MostRate the fastest one: the effect of a flood shows within seconds,
// and a flood that is not stopped ends.
const (
	Most     = 60 * time.Second
	MostRate = 2_000_000 // datagrams a second
)

// A Config says what floods which port.
type Config struct {
	Kind Kind
	From netip.Addr // an address of this host
	To   netip.Addr // the address whose port 4791 is flooded: of the same family

	// Rate is how many datagrams are sent in a second, 1..MostRate. On a slow host it are fewer.
	Rate int
	For  time.Duration // at most Most

	// Service is the service number in Requests, as rdma_cm's: port space 0x106 for RC, and the
	// port. 0 means port 7174 of RC, that of rping.
	Service uint64
}

const (
	batch       = 64
	turn        = time.Millisecond // so often are datagrams sent
	rcPorts     = 0x1060000        // service numbers of rdma_cm ports for RC
	rpingPort   = 7174
	payloadSize = 8
)

// Run floods a port for the time that cfg says, and returns how many datagrams it has sent. It
// uses one source port. It ends sooner if stop is closed.
func Run(cfg Config, stop <-chan struct{}) (sent int, err error) {
	if cfg.Rate < 1 || cfg.Rate > MostRate || cfg.For <= 0 || cfg.For > Most {
		return 0, fmt.Errorf("flood: %d datagrams a second for %v; 1 to %d a second, and at most %v, are possible", cfg.Rate, cfg.For, MostRate, Most)
	}
	f, err := newFlooder(cfg)
	if err != nil {
		return 0, err
	}
	defer unix.Close(f.fd)
	begin := time.Now()
	ticker := time.NewTicker(turn)
	defer ticker.Stop()
	for {
		passed := time.Since(begin)
		if passed >= cfg.For {
			return sent, nil
		}
		// After a delay at most two turns are made up for, so that the rate stays below Config.Rate.
		due := int(float64(cfg.Rate) * passed.Seconds())
		for until := time.Now().Add(2 * turn); sent < due && time.Now().Before(until); {
			n, err := f.send(min(batch, due-sent))
			if err != nil {
				return sent, err
			}
			sent += n
		}
		select {
		case <-stop:
			return sent, nil
		case <-ticker.C:
		}
	}
}

// A flooder is a socket, and a batch of datagrams.
type flooder struct {
	cfg      Config
	fd       int
	flow     packet.Flow
	rng      *rand.Rand
	buffers  [batch][]byte
	vectors  [batch]unix.Iovec
	messages [batch]mmsg.Message
}

func newFlooder(cfg Config) (*flooder, error) {
	if cfg.Service == 0 {
		cfg.Service = rcPorts | rpingPort
	}
	from, to, family := socketAddress(cfg.From, 0), socketAddress(cfg.To, packet.Port), unix.AF_INET
	if cfg.From.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("flood: UDP socket: %w", err)
	}
	f := &flooder{cfg: cfg, fd: fd, rng: rand.New(rand.NewPCG(1, 2))}
	// The identification in the IPv4 header is 0 with this option; the ICRC covers it.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if err := unix.Bind(fd, from); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("flood: bind to %v: %w", cfg.From, err)
	}
	if err := unix.Connect(fd, to); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("flood: connect to %v: %w", cfg.To, err)
	}
	port := uint16(0)
	switch name, _ := unix.Getsockname(fd); n := name.(type) {
	case *unix.SockaddrInet4:
		port = uint16(n.Port)
	case *unix.SockaddrInet6:
		port = uint16(n.Port)
	}
	f.flow = packet.MakeFlow(netip.AddrPortFrom(cfg.From.WithZone(""), port),
		netip.AddrPortFrom(cfg.To.WithZone(""), packet.Port))
	for i := range f.buffers {
		f.buffers[i] = f.datagram()
		f.renew(f.buffers[i])
		f.vectors[i].Base = &f.buffers[i][0]
		f.vectors[i].SetLen(len(f.buffers[i]))
		f.messages[i].Header.Iov, f.messages[i].Header.Iovlen = &f.vectors[i], 1
	}
	return f, nil
}

func socketAddress(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: a.As16()}
}

// send sends n datagrams. Those that pass all checks are new each time; the others repeat,
// which costs the sender less.
func (f *flooder) send(n int) (int, error) {
	for i := range n {
		if f.cfg.Kind == UnknownQP || f.cfg.Kind == Requests {
			f.renew(f.buffers[i])
		}
	}
	for at := 0; at < n; {
		sent, errno := mmsg.Send(f.fd, f.messages[at:n])
		switch errno {
		case 0:
			at += sent
		case unix.EAGAIN, unix.ENOBUFS, unix.ECONNREFUSED, unix.EINTR:
			return at, nil // the network is full, or the port is not bound
		default:
			return at, fmt.Errorf("flood: send to %v: %w", f.cfg.To, errno)
		}
	}
	return n, nil
}

// datagram returns the first datagram of a batch.
func (f *flooder) datagram() []byte {
	switch f.cfg.Kind {
	case Requests:
		return f.request()
	case Junk:
		return make([]byte, 64)
	}
	h := packet.MakeOpcode(packet.RC, packet.WriteOnly)
	b := make([]byte, h.Info().HeaderSize+payloadSize+packet.ICRCSize)
	bth := packet.BTH{Opcode: h, PKey: 0xffff, DestQP: 0x123456, AckReq: true, Migrated: true}
	bth.Put((*[packet.BTHSize]byte)(b))
	return b
}

// renew makes another datagram of one.
func (f *flooder) renew(b []byte) {
	be := binary.BigEndian
	switch f.cfg.Kind {
	case Junk:
		for i := 0; i < len(b); i += 8 {
			be.PutUint64(b[i:], f.rng.Uint64())
		}
		return
	case Requests:
		be.PutUint32(b[requestNumber:], f.rng.Uint32()|1)
	default:
		be.PutUint32(b[8:], f.rng.Uint32()&0xffffff|0x80000000) // PSN
		be.PutUint32(b[4:], f.rng.Uint32()&0xffffff)
	}
	f.flow.Seal(b, 0)
	if f.cfg.Kind == WrongICRC {
		b[len(b)-1] ^= 1
	}
}

// Offsets in a request: a UD packet with a management datagram, whose message begins at byte 24.
const (
	requestMAD    = packet.BTHSize + packet.DETHSize
	requestBody   = requestMAD + 24
	requestNumber = requestBody
	requestSize   = requestMAD + 256 + packet.ICRCSize
)

// request returns a REQ for an RC connection (InfiniBand Architecture Specification,
// volume 1, 12.6.5).
func (f *flooder) request() []byte {
	be := binary.BigEndian
	b := make([]byte, requestSize)
	opcode := packet.MakeOpcode(packet.UD, packet.SendOnly)
	packet.BTH{Opcode: opcode, PKey: 0xffff, DestQP: 1, Migrated: true}.Put((*[packet.BTHSize]byte)(b))
	packet.DETH{QKey: 0x80010000, SrcQP: 1}.Put((*[packet.DETHSize]byte)(b[packet.BTHSize:]))
	mad := b[requestMAD:]
	mad[0], mad[1], mad[2], mad[3] = 1, 7, 2, 3
	be.PutUint16(mad[16:], 0x10) // REQ
	body := b[requestBody:]
	be.PutUint64(body[8:], f.cfg.Service)
	be.PutUint32(body[32:], 0x123456<<8|1) // queue pair; one READ at a time
	body[39] = 1
	body[43] = 20 << 3   // timeout of the receiver
	body[47] = 20<<3 | 7 // of the sender; retries
	be.PutUint16(body[48:], 0xffff)
	body[50] = 3<<4 | 7 // MTU 1024; RNR retries
	body[51] = 15 << 4  // retries of the manager
	from, to := f.cfg.From.As16(), f.cfg.To.As16()
	copy(body[56:], from[:])
	copy(body[72:], to[:])
	body[93], body[95] = 64, 18<<3
	ip := body[140:] // struct cma_hdr
	ip[1] = 6 << 4
	if f.cfg.From.Is4() {
		ip[1] = 4 << 4
		from, to = [16]byte{}, [16]byte{}
		a, b := f.cfg.From.As4(), f.cfg.To.As4()
		copy(from[12:], a[:])
		copy(to[12:], b[:])
	}
	be.PutUint16(ip[2:], 4000)
	copy(ip[4:], from[:])
	copy(ip[20:], to[:])
	return b
}
