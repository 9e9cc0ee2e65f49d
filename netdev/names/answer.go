package names

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Domain is the domain of all names, with the dot at its end.
const Domain = "nicless."

// Seconds for which resolvers may keep an answer. Hosts come and go, and can have other addresses then.
const (
	ttl      = 5
	ttlNone  = 1 // that there is no such name
	sizeUDP  = 1232
	versions = 0xff << 16 // the bits of EDNS's version in the TTL of OPT
)

// A Zone is what is known of a network. Its functions are called at any time, by several goroutines.
type Zone interface {
	// HostAddresses returns the addresses of a host; none: there is no host of this name.
	HostAddresses(host string) []netip.Addr

	// HostOf returns the host that has an address; "": none, or one without a name.
	HostOf(netip.Addr) string

	// Networks are those whose addresses have no other names.
	Networks() []netip.Prefix
}

// Answer returns the answer to a query; nil if there is to be none.
func Answer(query []byte, z Zone) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	r := reply{id: h.ID, desired: h.RecursionDesired, opcode: h.OpCode}
	if h.OpCode != 0 {
		r.code = dnsmessage.RCodeNotImplemented
		return r.bytes()
	}
	if !r.read(&p) {
		r.code, r.question = dnsmessage.RCodeFormatError, nil
		return r.bytes()
	}
	if !r.badVersion {
		r.decide(z)
	}
	return r.bytes()
}

// A reply is an answer before it has bytes.
type reply struct {
	id         uint16
	opcode     dnsmessage.OpCode
	desired    bool // the query desires recursion, which it does not get
	question   *dnsmessage.Question
	edns       bool // the query has an OPT
	badVersion bool // of EDNS
	code       dnsmessage.RCode
	ours       bool // the name is in the zone
	apex       bool // SOA of the domain is the answer
	addresses  []netip.Addr
	name       string // answer to PTR
}

// read reads the only question of a query, and whether it has an OPT. It returns false if the query cannot be
// right.
func (r *reply) read(p *dnsmessage.Parser) bool {
	q, err := p.Question()
	if err != nil {
		return false
	}
	r.question = &q
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return false
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return true
		}
		if err != nil || p.SkipAdditional() != nil {
			return false
		}
		if h.Type != dnsmessage.TypeOPT {
			continue
		}
		if r.edns {
			return false
		}
		r.edns, r.badVersion = true, h.TTL&versions != 0
	}
}

// decide finds the code of the answer, and what is in it.
func (r *reply) decide(z Zone) {
	r.code = dnsmessage.RCodeRefused
	if c := r.question.Class; c != dnsmessage.ClassINET && c != dnsmessage.ClassANY {
		return
	}
	name := lower(r.question.Name)
	switch {
	case name == Domain:
		r.code, r.ours = dnsmessage.RCodeSuccess, true
		r.apex = r.wants(dnsmessage.TypeSOA)
	case strings.HasSuffix(name, "."+Domain):
		r.ours = true
		r.answerHost(z.HostAddresses(strings.TrimSuffix(name, "."+Domain)))
	default:
		if ip, ok := reversed(name); ok {
			r.answerAddress(ip, z)
		}
	}
}

// lower is a name with the letters of ASCII in lower case: no others are equal (RFC 4343, 3).
func lower(name dnsmessage.Name) string {
	b := name.Data[:name.Length]
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func (r *reply) answerHost(list []netip.Addr) {
	r.code = dnsmessage.RCodeNameError
	for _, ip := range list {
		r.code = dnsmessage.RCodeSuccess
		if r.wants(typeOf(ip)) {
			r.addresses = append(r.addresses, ip)
		}
	}
}

func (r *reply) answerAddress(ip netip.Addr, z Zone) {
	host := z.HostOf(ip)
	here := func(p netip.Prefix) bool { return p.Contains(ip) }
	r.ours = host != "" || slices.ContainsFunc(z.Networks(), here)
	switch {
	case host != "":
		r.code = dnsmessage.RCodeSuccess
		if r.wants(dnsmessage.TypePTR) {
			r.name = host + "." + Domain
		}
	case r.ours:
		r.code = dnsmessage.RCodeNameError
	}
}

func (r *reply) wants(t dnsmessage.Type) bool {
	return r.question.Type == t || r.question.Type == dnsmessage.TypeALL
}

func typeOf(ip netip.Addr) dnsmessage.Type {
	if ip.Is4() {
		return dnsmessage.TypeA
	}
	return dnsmessage.TypeAAAA
}

// bytes is the message. Its parts are within all limits of the library; nil stands for those that are not.
func (r *reply) bytes() []byte {
	h := dnsmessage.Header{ID: r.id, Response: true, OpCode: r.opcode, Authoritative: r.ours,
		RecursionDesired: r.desired, RCode: r.code}
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), h)
	b.EnableCompression()
	steps := []func(*dnsmessage.Builder) error{r.putQuestion, r.putAnswers, r.putAuthority, r.putOPT}
	for _, step := range steps {
		if step(&b) != nil {
			return nil
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

func (r *reply) putQuestion(b *dnsmessage.Builder) error {
	if err := b.StartQuestions(); err != nil || r.question == nil {
		return err
	}
	return b.Question(*r.question)
}

func (r *reply) putAnswers(b *dnsmessage.Builder) (err error) {
	if err := b.StartAnswers(); err != nil || r.question == nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	for _, ip := range r.addresses {
		if ip.Is4() {
			err = b.AResource(h, dnsmessage.AResource{A: ip.As4()})
		} else {
			err = b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: ip.As16()})
		}
		if err != nil {
			return err
		}
	}
	switch {
	case r.apex:
		return b.SOAResource(h, authority)
	case r.name != "":
		name, err := dnsmessage.NewName(r.name)
		if err != nil {
			return err
		}
		return b.PTRResource(h, dnsmessage.PTRResource{PTR: name})
	}
	return nil
}

// putAuthority says for how long resolvers may keep that there is nothing.
func (r *reply) putAuthority(b *dnsmessage.Builder) error {
	nothing := len(r.addresses) == 0 && r.name == "" && !r.apex
	if err := b.StartAuthorities(); err != nil || !r.ours || !nothing {
		return err
	}
	zone := authority.NS
	if !strings.HasSuffix(lower(r.question.Name), Domain) {
		zone = r.question.Name // of an address
	}
	h := dnsmessage.ResourceHeader{Name: zone, Class: dnsmessage.ClassINET, TTL: ttlNone}
	return b.SOAResource(h, authority)
}

// authority says that nothing is kept for longer than a second without being looked up again. There are
// no copies of the zone, so the other numbers mean nothing.
var authority = dnsmessage.SOAResource{
	NS: dnsmessage.MustNewName(Domain), MBox: dnsmessage.MustNewName(Domain),
	Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, MinTTL: ttlNone,
}

func (r *reply) putOPT(b *dnsmessage.Builder) error {
	if err := b.StartAdditionals(); err != nil || !r.edns {
		return err
	}
	code := dnsmessage.RCodeSuccess
	if r.badVersion {
		code = badVersion
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(sizeUDP, code, false); err != nil {
		return err
	}
	return b.OPTResource(h, dnsmessage.OPTResource{})
}

// badVersion is BADVERS of RFC 6891, whose upper bits are in OPT.
const badVersion = dnsmessage.RCode(16)
