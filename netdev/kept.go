//go:build linux && (amd64 || arm64)

package netdev

import "fmt"

// kept are the lives and addresses of peers that announce them again, beside something else, in one look:
// others that announce them in the same look do not get them. The keys are of types uint64 and netip.Addr.
type kept map[any]*peer

// add adds what a peer announces still.
func (k kept) add(p *peer, found *announcement) {
	if p.announced.life == found.life {
		k[found.life] = p
	}
	for _, ip := range found.addresses {
		if p.in.taken[ip] == p {
			k[ip] = p
		}
	}
}

// check returns why an announcement of a client is refused, or nil.
func (k kept) check(found *announcement, at id) error {
	if p := k[found.life]; p != nil && p.id() != at {
		return fmt.Errorf("it says that it is in the life of interface %s", p.announced.name)
	}
	for _, ip := range found.addresses {
		if p := k[ip]; p != nil && p.id() != at {
			return fmt.Errorf("it says that it has %v, which interface %s had before it", ip, p.announced.name)
		}
	}
	return nil
}

func (p *peer) id() id { return id{p.at.Device, p.at.Client} }
