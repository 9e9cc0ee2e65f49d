//go:build linux && (amd64 || arm64)

package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostLines is how many lines of keys a file of peers may have. A rack has some dozen engines; a path
	// table of RoCE has 4096 places.
	mostLines = 4096
	mostBytes = mostLines * 256
)

// Peers are the keys that an engine accepts, each from a prefix of addresses. They are read from a
// file, whose lines are
//
//	ADDRESS-OR-PREFIX nicless-public-1 BASE64 [# comment]
//
// If lines cover an address, only the keys in these lines are accepted from it. The methods are safe for
// concurrent use.
type Peers struct {
	path  string
	trust bool // keys that are seen first are pinned
	log   *slog.Logger

	now   atomic.Pointer[accepted] // the keys that are accepted
	reads atomic.Uint64            // how many times the file was read

	mu       sync.Mutex // guards the fields below, and the file between the goroutines of this process
	lastGood stamp      // of the file when it was read last
	lastBad  stamp      // of the file when it could not be used last

	unflushed bool // lines were added of which flush does not know
	flushing  bool // the goroutine of flush runs
}

// accepted has the keys of the file. It is replaced, never changed. Carriers look up the addresses of
// strangers, so a lookup must be cheap: its cost depends on how many different lengths the prefixes have,
// not on the lines.
type accepted struct {
	keys    map[netip.Prefix][]PublicKey
	lengths []int // the different lengths of the prefixes, the longest first
	lines   int   // how many lines have a key
}

// A stamp distinguishes contents of a file.
type stamp struct {
	inode, size int64
	changed     time.Time
	mode        fs.FileMode
}

// OpenPeers reads a file of peers. A file that does not exist has no lines. If trustFirst is true, Check
// adds keys to it. log gets the keys that are added, and changes of the file; it may be nil.
func OpenPeers(path string, trustFirst bool, log *slog.Logger) (*Peers, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Peers{path: path, trust: trustFirst, log: log}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p, p.read(stampOf(path))
}

// Covers reports whether a line covers this address. Packets without keys are never accepted from such an
// address. It allocates nothing.
func (p *Peers) Covers(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	now := p.now.Load()
	for _, n := range now.lengths {
		if prefix, err := a.Prefix(n); err == nil && len(now.keys[prefix]) > 0 {
			return true
		}
	}
	return false
}

// Trusts reports whether a key that is seen first is accepted.
func (p *Peers) Trusts() bool { return p.trust }

// Changes returns how many times the file was read: a caller that keeps a decision makes it anew
// when the number changes. Refresh and Check look whether the file has changed.
func (p *Peers) Changes() uint64 { return p.reads.Load() }

// Known returns nil if a line accepts the key from the address; it changes nothing.
func (p *Peers) Known(a netip.Addr, key PublicKey) error {
	return p.now.Load().check(a.Unmap().WithZone(""), key, p.path)
}

var errUncovered = errors.New("no line")

// check returns nil if a line accepts the key from the address, and an error that wraps errUncovered if no
// line has the address.
func (s *accepted) check(a netip.Addr, key PublicKey, path string) error {
	// The most specific line with another key, if there is one.
	var other PublicKey
	var covers netip.Prefix
	for _, n := range s.lengths {
		prefix, err := a.Prefix(n)
		if err != nil {
			continue // a is of the other version of IP
		}
		keys := s.keys[prefix]
		if slices.Contains(keys, key) {
			return nil
		}
		if len(keys) > 0 && !covers.IsValid() {
			other, covers = keys[0], prefix
		}
	}
	if !covers.IsValid() {
		return fmt.Errorf("%w of %s covers %v; to accept its key, add the line \"%v %v\"", errUncovered, path, a, a, key)
	}
	return fmt.Errorf("%v has another key (%s, fingerprint %s) than %s says (fingerprint %s). Either somebody else uses this address, "+
		"or the engine there has got a new key: then replace the line of %v in that file", a, key, key.Fingerprint(), path, other.Fingerprint(), covers)
}

// Check returns nil if the key is accepted from the address. With trustFirst, it accepts any key from an
// address that no line covers, and adds the key to the file. The caller must know that the other end has the
// private key.
func (p *Peers) Check(a netip.Addr, key PublicKey) error {
	a = a.Unmap().WithZone("")
	err := p.Known(a, key)
	if err == nil {
		return nil
	}
	p.Refresh() // the key may just have been added
	err = p.Known(a, key)
	if errors.Is(err, errUncovered) && p.trust {
		err = p.pin(a, key)
	}
	return err // the carrier logs it
}

// Refresh reads the file again if it has changed, and reports whether it has. A file that cannot be
// read, or has a line that is wrong, changes nothing; the log says why, once.
func (p *Peers) Refresh() (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refresh()
}

func (p *Peers) refresh() bool {
	now := stampOf(p.path)
	if now == p.lastGood || now == p.lastBad {
		return false
	}
	if err := p.read(now); err != nil {
		p.lastBad = now
		p.log.Warn("the file of peers has changed and cannot be used; the keys are those from before", "error", err.Error())
		return false
	}
	p.log.Info("the file of peers was read again", "file", p.path, "lines", p.now.Load().lines)
	return true
}

// read reads the file, whose stamp is at. The caller holds p.mu.
func (p *Peers) read(at stamp) error {
	text, err := readGuarded(p.path, 0o022, mostBytes)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("auth: file of peers: %w", err)
	}
	now, err := parsePeers(text)
	if err != nil {
		return fmt.Errorf("auth: file of peers %s: %w", p.path, err)
	}
	p.now.Store(now)
	p.reads.Add(1)
	p.lastGood = at
	return nil
}

// parsePeers reads the lines of a file of peers.
func parsePeers(text []byte) (*accepted, error) {
	s := &accepted{keys: make(map[netip.Prefix][]PublicKey)}
	for i, row := range bytes.Split(text, []byte("\n")) {
		words, _, _ := strings.Cut(string(row), "#")
		if strings.TrimSpace(words) == "" {
			continue
		}
		from, key, err := parseLine(strings.Fields(words))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		s.lines++
		if s.lines > mostLines {
			return nil, fmt.Errorf("line %d: more than %d keys", i+1, mostLines)
		}
		s.keys[from] = append(s.keys[from], key)
		if !slices.Contains(s.lengths, from.Bits()) {
			s.lengths = append(s.lengths, from.Bits())
		}
	}
	slices.Sort(s.lengths)
	slices.Reverse(s.lengths)
	return s, nil
}

func parseLine(words []string) (from netip.Prefix, key PublicKey, err error) {
	if from, err = parsePrefix(words[0]); err == nil {
		key, err = ParsePublicKey(strings.Join(words[1:], " "))
	}
	return from, key, err
}

// parsePrefix reads an address or a prefix, without zone. IPv4-mapped addresses become IPv4.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is no address, and no prefix such as 10.0.0.0/8", s)
	}
	return p.Masked(), nil
}

// stampOf returns the stamp of a file; the zero value if there is none.
func stampOf(path string) (s stamp) {
	st, err := os.Stat(path)
	if err != nil {
		return s
	}
	s.size, s.changed, s.mode = st.Size(), st.ModTime(), st.Mode()
	s.inode = inodeOf(st)
	return s
}
