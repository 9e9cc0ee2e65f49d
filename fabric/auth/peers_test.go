//go:build linux && (amd64 || arm64)

package auth

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func keyNumber(n int) (k PublicKey) {
	k[0], k[1], k[31] = byte(n), byte(n>>8), 1
	return k
}

// A key is accepted from the addresses of its lines only.
func TestPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	write(t, path,
		"# the rack", "",
		"192.0.2.1 "+keyNumber(1).String(),
		"  192.0.2.1\t"+keyNumber(2).String()+" # the new key of the same engine",
		"10.0.0.0/8 "+strings.Fields(keyNumber(3).String())[1]+"# no prefix",
		"2001:db8::/32 "+keyNumber(4).String(),
		"fe80::1 "+keyNumber(5).String())
	p, err := OpenPeers(path, false, nil)
	require.NoError(t, err)
	for _, row := range []struct {
		from string
		key  int
		want string
	}{
		{"192.0.2.1", 1, ""}, {"192.0.2.1", 2, ""}, {"::ffff:192.0.2.1", 1, ""},
		{"10.255.0.3", 3, ""}, {"2001:db8:9::7", 4, ""}, {"fe80::1%eth0", 5, ""},
		{"192.0.2.1", 3, "has another key"}, {"192.0.2.2", 1, "covers 192.0.2.2"},
		{"11.0.0.1", 3, "covers"}, {"10.0.0.1", 1, "has another key"}, {"2001:db9::", 4, "covers"},
	} {
		a := netip.MustParseAddr(row.from)
		err := p.Check(a, keyNumber(row.key))
		require.Equal(t, row.want != "covers" && !strings.HasPrefix(row.want, "covers "), p.Covers(a), row.from)
		if row.want == "" {
			require.NoError(t, err, row.from)
			continue
		}
		require.ErrorContains(t, err, row.want)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, keyNumber(row.key).String())
	}
}

func TestBadPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	_, err := OpenPeers(path, false, nil)
	require.NoError(t, err, "no file: nobody")
	for _, row := range []string{"192.0.2.1", "192.0.2.1 x", "host " + keyNumber(1).String(), "10.0.0.0/33 " + keyNumber(1).String(),
		"::ffff:10.0.0.0/104 " + keyNumber(1).String(), "fe80::1%eth0 " + keyNumber(1).String(), "192.0.2.1 " + keyNumber(1).String() + " more"} {
		write(t, path, "# one", row)
		_, err := OpenPeers(path, false, nil)
		require.ErrorContains(t, err, "line 2: ", row)
		require.ErrorContains(t, err, path)
	}
	write(t, path, strings.Repeat("192.0.2.1 "+keyNumber(1).String()+"\n", mostLines+1))
	_, err = OpenPeers(path, false, nil)
	require.ErrorContains(t, err, "more than 4096 keys")
	write(t, path)
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = OpenPeers(path, false, nil)
	require.ErrorContains(t, err, "chmod 0644")
}

// The file is read again when it changes; a file that is wrong changes nothing.
func TestPeersChange(t *testing.T) {
	e := newEnd(t, false, "192.0.2.1 "+keyNumber(1).String())
	require.False(t, e.Peers.Refresh())
	require.NoError(t, e.Peers.Known(here, keyNumber(1)))
	write(t, e.file, "192.0.2.1 "+keyNumber(1).String(), "192.0.2.2 wrong")
	require.False(t, e.Peers.Refresh())
	require.False(t, e.Peers.Refresh())
	require.Equal(t, 1, strings.Count(e.log.String(), "cannot be used"), "said once")
	require.Contains(t, e.log.String(), "line 2")
	require.NoError(t, e.Peers.Known(here, keyNumber(1)))
	write(t, e.file, "192.0.2.1 "+keyNumber(22).String(), "# longer, so that the file is another within a tick of the clock")
	require.NoError(t, e.Peers.Check(here, keyNumber(22)), "Check looks whether the file has changed")
	require.Error(t, e.Peers.Known(here, keyNumber(1)))
	require.NoError(t, os.Remove(e.file))
	require.True(t, e.Peers.Refresh())
	require.False(t, e.Peers.Covers(here))
}

// With trust=first, the first key of an address is pinned in the file; another one is refused with words
// that name both. A line for a prefix counts as seen.
func TestTrustFirst(t *testing.T) {
	e := newEnd(t, true)
	// Without an end of line.
	require.NoError(t, os.WriteFile(e.file, []byte("10.0.0.0/8 "+keyNumber(9).String()), 0o600))
	require.True(t, e.Peers.Refresh())
	require.NoError(t, e.Peers.Check(here, keyNumber(1)))
	require.NoError(t, e.Peers.Check(here, keyNumber(1)))
	err := e.Peers.Check(here, keyNumber(2))
	for _, part := range []string{keyNumber(1).Fingerprint(), keyNumber(2).String(), e.file, "replace the line of 192.0.2.1/32"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, e.log.String(), keyNumber(2).String(), "carriers say it")
	require.Error(t, e.Peers.Check(netip.MustParseAddr("10.1.1.1"), keyNumber(1)), "a line covers it")
	text, err := os.ReadFile(e.file)
	require.NoError(t, err)
	require.Regexp(t, `^10\.0\.0\.0/8 nicless-public-1 \S+\n192\.0\.2\.1 nicless-public-1 \S+ # seen first at 20\S+Z\n$`, string(text))
	again, err := OpenPeers(e.file, true, nil)
	require.NoError(t, err)
	require.NoError(t, again.Known(here, keyNumber(1)))
	require.NoError(t, os.Chmod(e.file, 0o666))
	require.ErrorContains(t, e.Peers.Check(there, keyNumber(1)), "chmod 0644")
}

// To look up a stranger costs no memory.
func TestCoversDoesNotAllocate(t *testing.T) {
	e := newEnd(t, false, "10.0.0.0/8 "+keyNumber(1).String(), "192.0.2.0/24 "+keyNumber(2).String(), "2001:db8::/32 "+keyNumber(4).String())
	v6 := netip.MustParseAddr("2001:db9::1")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !e.Peers.Covers(here) || e.Peers.Covers(v6) {
			panic("wrong")
		}
	}))
}

// Engines that share a file pin one key for an address, that of the first one, and lose no line.
func TestPinTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	const engines, addresses = 8, 16
	var won [addresses][engines]bool
	var all sync.WaitGroup
	for i := range engines {
		p, err := OpenPeers(path, true, nil)
		require.NoError(t, err)
		all.Go(func() {
			for n := range addresses {
				a := netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
				won[n][i] = p.Check(a, keyNumber(i+1)) == nil
			}
		})
	}
	all.Wait()
	p, err := OpenPeers(path, false, nil)
	require.NoError(t, err)
	require.Equal(t, addresses, p.now.Load().lines)
	for n := range addresses {
		winners := 0
		for i := range engines {
			if won[n][i] {
				winners++
				require.NoError(t, p.Known(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), keyNumber(i+1)))
			}
		}
		require.Equal(t, 1, winners, "address %d", n)
	}
}

// A file with all keys that are possible takes no more.
func TestPinIsBounded(t *testing.T) {
	var lines []string
	for i := range mostLines {
		lines = append(lines, fmt.Sprintf("10.0.%d.%d %v", i>>8, i&255, keyNumber(i)))
	}
	e := newEnd(t, true, lines...)
	require.ErrorContains(t, e.Peers.Check(here, keyNumber(1)), "has 4096 keys")
	require.False(t, e.Peers.Covers(here))
}

// A key of an engine that accepts no other keys is a mistake, which the log reports at the start.
func TestNobodyIsAccepted(t *testing.T) {
	e := newEnd(t, false, "# nobody")
	for _, row := range []struct {
		o     Options
		lines []string
		said  bool
	}{
		{Options{}, nil, true}, {Options{Peers: e.key + ".none"}, nil, true}, {Options{Offered: true}, nil, true},
		{Options{Trust: true}, nil, false}, {Options{}, []string{"192.0.2.1 " + keyNumber(1).String()}, false},
	} {
		write(t, e.file, row.lines...)
		var log strings.Builder
		row.o.Key = e.key
		_, err := row.o.Open(slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		require.Equal(t, row.said, strings.Contains(log.String(), "no keys are accepted"), "%+v", row)
		if row.said {
			require.Contains(t, log.String(), "level=WARN")
			require.Contains(t, log.String(), e.key+".")
		}
	}
}

func TestOptions(t *testing.T) {
	e := newEnd(t, false)
	for _, row := range []struct {
		items []string
		want  Options
		err   string
	}{
		{nil, Options{}, ""},
		{[]string{"key=a"}, Options{Key: "a"}, ""},
		{[]string{"key=a", "peers=b", "trust=first", "auth=offered", "encrypt"}, Options{Key: "a", Peers: "b", Trust: true, Offered: true, Encrypt: true, modeGiven: true}, ""},
		{[]string{"auth=required", "key=a", "encrypt=yes", "key=a"}, Options{Key: "a", Encrypt: true, modeGiven: true}, ""},
		{[]string{"auth=required"}, Options{}, "need key=FILE"},
		{[]string{"encrypt"}, Options{}, "need key=FILE"},
		{[]string{"trust=first"}, Options{}, "need key=FILE"},
		{[]string{"peers=b"}, Options{}, "need key=FILE"},
		{[]string{"key="}, Options{}, "the name of a file"},
		{[]string{"key"}, Options{}, "the name of a file"},
		{[]string{"key=a", "key=b"}, Options{}, "a link has one"},
		{[]string{"trust=all"}, Options{}, "trust=first is possible"},
		{[]string{"auth=no"}, Options{}, "auth=required and auth=offered are possible"},
		{[]string{"auth=required", "auth=offered"}, Options{}, "exclude each other"},
		{[]string{"encrypt=no"}, Options{}, "encrypt=yes are possible"},
	} {
		var o Options
		var err error
		for _, item := range row.items {
			mine, e := o.Set(item)
			require.True(t, mine, item)
			if err == nil {
				err = e
			}
		}
		if err == nil {
			err = o.Check()
		}
		if row.err != "" {
			require.ErrorContains(t, err, row.err, "%q", row.items)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.want, o)
	}
	var o Options
	mine, err := o.Set("peer=10.0.0.0/8")
	require.NoError(t, err)
	require.False(t, mine)
	p, err := o.Open(nil)
	require.NoError(t, err)
	require.Nil(t, p)
	o = Options{Key: e.key, Encrypt: true, Trust: true}
	p, err = o.Open(nil)
	require.NoError(t, err)
	require.Equal(t, e.Identity.Public(), p.Identity.Public())
	require.True(t, p.Required && p.Encrypt && p.Peers.Trusts())
	require.NoError(t, p.Peers.Check(here, keyNumber(1)))
	require.True(t, e.Peers.Refresh(), "the file of peers lies beside the key")
	o.Key += "x"
	_, err = o.Open(nil)
	require.ErrorContains(t, err, "auth: key file")
}
