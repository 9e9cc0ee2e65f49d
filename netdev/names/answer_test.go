package names

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// A table is a zone of hosts that do not change.
type table map[string][]netip.Addr

func (t table) HostAddresses(host string) []netip.Addr { return t[host] }

func (t table) HostOf(ip netip.Addr) string {
	for host, list := range t {
		if slices.Contains(list, ip) {
			return host
		}
	}
	return ""
}

func (t table) Networks() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("100.110.0.0/16"), netip.MustParsePrefix("fd6e::/64")}
}

var hosts = table{
	"web-1": {netip.MustParseAddr("100.110.3.4"), netip.MustParseAddr("fd6e::5")},
	"four":  {netip.MustParseAddr("100.110.3.5")},
}

// ask returns a query of one question.
func ask(t testing.TB, name string, kind dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0x1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	for _, f := range change {
		f(&m)
	}
	b, err := m.Pack()
	require.NoError(t, err)
	return b
}

const (
	typeA   = dnsmessage.TypeA
	typeTXT = dnsmessage.TypeTXT
	typePTR = dnsmessage.TypePTR
	typeSOA = dnsmessage.TypeSOA

	success  = dnsmessage.RCodeSuccess
	unknown  = dnsmessage.RCodeNameError
	refused  = dnsmessage.RCodeRefused
	badQuery = dnsmessage.RCodeFormatError

	four = "4.3.110.100.in-addr.arpa."
	web6 = "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.e.6.d.f.ip6.arpa."
)

func class(c dnsmessage.Class) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) { m.Questions[0].Class = c }
}

func opt(version uint32) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: 4096, TTL: version << 16}
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
	}
}

func update(m *dnsmessage.Message) { m.OpCode = 5 }

func twice(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }

// Queries get the answer, the code and the negative answer that they should.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		query []byte
		code  dnsmessage.RCode
		want  string // answers
		ours  bool
	}{
		{ask(t, "web-1.nicless.", typeA), success, "100.110.3.4", true},
		{ask(t, "WEB-1.Nicless.", typeA), success, "100.110.3.4", true},
		{ask(t, "web-1.nicless.", dnsmessage.TypeAAAA), success, "fd6e::5", true},
		{ask(t, "web-1.nicless.", dnsmessage.TypeALL), success, "100.110.3.4 fd6e::5", true},
		{ask(t, "four.nicless.", dnsmessage.TypeAAAA), success, "", true},
		{ask(t, "web-1.nicless.", typeTXT), success, "", true},
		{ask(t, "other.nicless.", typeA), unknown, "", true},
		{ask(t, "a.web-1.nicless.", typeA), unknown, "", true},
		{ask(t, "nicless.", typeA), success, "", true},
		{ask(t, "nicless.", typeSOA), success, "SOA", true},
		{ask(t, four, typePTR), success, "web-1.nicless.", true},
		{ask(t, web6, typePTR), success, "web-1.nicless.", true},
		{ask(t, strings.ToUpper(web6), typePTR), success, "web-1.nicless.", true},
		{ask(t, four, typeA), success, "", true},
		{ask(t, "9.9.110.100.in-addr.arpa.", typePTR), unknown, "", true},
		{ask(t, "8.8.8.8.in-addr.arpa.", typePTR), refused, "", false},
		{ask(t, "110.100.in-addr.arpa.", typePTR), refused, "", false},
		{ask(t, "04.3.110.100.in-addr.arpa.", typePTR), refused, "", false},
		{ask(t, "a"+web6, typePTR), refused, "", false},
		{ask(t, "example.org.", typeA), refused, "", false},
		{ask(t, "notnicless.", typeA), refused, "", false},
		{ask(t, ".", typeA), refused, "", false},
		{ask(t, "web-1.nicless.", typeA, class(dnsmessage.ClassCHAOS)), refused, "", false},
		{ask(t, "web-1.nicless.", typeA, twice), badQuery, "", false},
		{ask(t, "web-1.nicless.", typeA, opt(0)), success, "100.110.3.4", true},
		{ask(t, "web-1.nicless.", typeA, opt(0), opt(0)), badQuery, "", false},
		{ask(t, "web-1.nicless.", typeA, opt(1)), success, "", false},
		{ask(t, "web-1.nicless.", typeA, update), dnsmessage.RCodeNotImplemented, "", false},
		{ask(t, "web-1.nicless.", typeA)[:20], badQuery, "", false},
	} {
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(Answer(c.query, hosts)), "%q", c.query)
		about := m.GoString()
		require.EqualValues(t, 0x1234, m.ID)
		require.True(t, m.Response && !m.RecursionAvailable && !m.Truncated, about)
		require.Equal(t, c.code, m.RCode, about)
		require.Equal(t, c.ours, m.Authoritative, about)
		require.Equal(t, c.want, said(m.Answers), about)
		require.Equal(t, c.ours && c.want == "", len(m.Authorities) == 1, about)
	}
	require.Nil(t, Answer(nil, hosts))
	require.Nil(t, Answer(ask(t, "web-1.nicless.", typeA, func(m *dnsmessage.Message) { m.Response = true }), hosts))
}

func said(list []dnsmessage.Resource) string {
	var all []string
	for _, r := range list {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			all = append(all, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			all = append(all, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.PTRResource:
			all = append(all, b.PTR.String())
		case *dnsmessage.SOAResource:
			all = append(all, "SOA")
		}
	}
	return strings.Join(all, " ")
}

// A version of EDNS that is not 0 gets BADVERS, whose upper bits are in OPT.
func TestBadVersion(t *testing.T) {
	var m dnsmessage.Message
	require.NoError(t, m.Unpack(Answer(ask(t, "web-1.nicless.", typeA, opt(1)), hosts)))
	require.Len(t, m.Additionals, 1)
	require.Equal(t, badVersion, m.Additionals[0].Header.ExtendedRCode(m.RCode))
}

// Whatever comes, the answer is a message of at most 512 bytes, or there is none.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"web-1.nicless.", "x.nicless.", web6, four, "example.org."} {
		f.Add(ask(f, name, dnsmessage.TypeALL, opt(0)))
	}
	longest := strings.Repeat(strings.Repeat("a", 59)+".", 4) + "aaa.nicless."
	f.Add(ask(f, longest, typeSOA, opt(0)))
	f.Fuzz(func(t *testing.T, query []byte) {
		out := Answer(query, hosts)
		if out == nil {
			return
		}
		require.LessOrEqual(t, len(out), 512)
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(out))
		require.True(t, m.Response)
		require.Equal(t, query[:2], out[:2])
	})
}
