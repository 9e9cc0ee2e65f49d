//go:build linux && (amd64 || arm64)

package ucx

import "fmt"

const (
	tokenSize     = 16
	offerHead     = tokenSize + 8
	maxWorker     = 16384 // WORKER_ADDRESS of carrier/carrier.h
	maxOffer      = offerHead + maxDoors*doorSize + maxTickets*ticketSize + maxWorker + maxHello
	leastWorker   = 8 // worker addresses of UCX are longer
	offerAnywhere = 1 // a flag: the engine listens at all its addresses
)

// An offer is what an engine sends another when they meet: how its process is reached, and its hello.
type offer struct {
	token          [tokenSize]byte    // each message to the engine's process has this token
	port           uint16             // TCP port of the engine
	onAllAddresses bool               // the port is one of all addresses of the engine's host
	doors          []doorName         // of the engine's process
	tickets        [][ticketSize]byte // each admits one connection to a door
	worker         []byte             // worker address of UCX
	hello          hello
}

// append appends the offer to b:
//
//	0   token
//	16  port:16 | flags:8 | doors:8 | tickets:8 | 0:8 | bytes of the worker address:16
//	24  names of doors, tickets, worker address, hello
func (o *offer) append(b []byte) []byte {
	b = append(b, o.token[:]...)
	b = be.AppendUint16(b, o.port)
	flags := byte(0)
	if o.onAllAddresses {
		flags = offerAnywhere
	}
	b = append(b, flags, byte(len(o.doors)), byte(len(o.tickets)), 0)
	b = be.AppendUint16(b, uint16(len(o.worker)))
	for _, d := range o.doors {
		b = append(b, d[:]...)
	}
	for _, t := range o.tickets {
		b = append(b, t[:]...)
	}
	b = append(b, o.worker...)
	return o.hello.append(b)
}

// parseOffer reads an offer. It checks everything except the worker address, which only libucp understands.
func parseOffer(b []byte) (o offer, err error) {
	if len(b) < offerHead || len(b) > maxOffer {
		return o, fmt.Errorf("an offer of %d bytes; %d to %d are possible", len(b), offerHead, maxOffer)
	}
	doors, tickets, worker := int(b[19]), int(b[20]), int(be.Uint16(b[22:]))
	end := offerHead + doors*doorSize + tickets*ticketSize + worker
	if doors > maxDoors || tickets > maxTickets ||
		worker < leastWorker || worker > maxWorker || end > len(b) {
		return o, fmt.Errorf("an offer of %d bytes with %d doors, %d tickets and a worker address of %d bytes", len(b), doors, tickets, worker)
	}
	o = offer{token: [tokenSize]byte(b), port: be.Uint16(b[16:]), onAllAddresses: b[18]&offerAnywhere != 0}
	if o.token == ([tokenSize]byte{}) || o.port == 0 {
		return o, fmt.Errorf("an offer without a token or a port")
	}
	at := offerHead
	for range doors {
		o.doors = append(o.doors, doorName(b[at:]))
		at += doorSize
	}
	for range tickets {
		o.tickets = append(o.tickets, [ticketSize]byte(b[at:]))
		at += ticketSize
	}
	o.worker = b[at:end]
	o.hello, err = parseHello(b[end:])
	return o, err
}
