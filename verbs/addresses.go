//go:build linux && (amd64 || arm64)

package verbs

import (
	"bytes"
	"os"
	"strings"

	"github.com/nicless/nicless/internal/nic"
)

// A wireAddresses is an nv_addresses with the nv_address after it.
type wireAddresses struct {
	cookie uint64
	all    []address
}

// maxAddresses is how many addresses a request may have; the shim sends no more.
const maxAddresses = 1024

// parseAddresses parses the body of a request NV_ADDRESSES. Addresses that no interface can
// have are left out.
func parseAddresses(b []byte) (w wireAddresses, ok bool) {
	if len(b) < addressesSize {
		return w, false
	}
	w.cookie = le.Uint64(b)
	count := le.Uint32(b[8:])
	b = b[addressesSize:]
	if count > maxAddresses || len(b) != int(count)*addressSize {
		return w, false
	}
	for ; len(b) > 0; b = b[addressSize:] {
		name, _, ended := bytes.Cut(b[gidSize:][:maxIfname], []byte{0})
		a := address{gid: [gidSize]byte(b), ifname: string(name), ifindex: le.Uint32(b[32:]), prefix: b[36]}
		ip := a.ip()
		if ended && validIfname(a.ifname) && a.ifindex != 0 && int(a.prefix) <= ip.BitLen() &&
			!ip.IsUnspecified() && !ip.IsMulticast() {
			w.all = append(w.all, a)
		}
	}
	return w, true
}

// validIfname reports whether an interface can have that name, which becomes the name of a
// file. The kernel allows more (dev_valid_name): names that are not ASCII.
func validIfname(name string) bool {
	return name != "" && name != "." && name != ".." &&
		!strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' || c == ':' })
}

// networkSize is the size of an nv_network.
const networkSize = 64

// addresses serves NV_ADDRESSES: the process sends the addresses of its network namespace. The
// answer is an nv_network.
func (p *process) addresses(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	told, ok := parseAddresses(b)
	if !ok {
		return nil, nil, errWire
	}
	if p.net == p.s.nowhere {
		n, err := p.s.join(p.key)
		if err != nil {
			return nil, nil, err
		}
		p.s.leave(p.net)
		p.net = n
	}
	// A thread of the program can be in another namespace than the connection.
	if told.cookie == 0 || p.key.cookie == 0 || told.cookie == p.key.cookie {
		if err := p.s.reported(p.net, told.all); err != nil {
			return nil, nil, err
		}
	}
	answer := make([]byte, networkSize)
	copy(answer, p.net.tree.name)
	return append(appendAnswer(nil, h, 0, 0), answer...), nil, nil
}
