//go:build linux && (amd64 || arm64)

package netdev

import (
	"fmt"
	"strings"
)

// MaxHost is the most bytes of a host's name: a label of DNS has 63 (RFC 1035, 2.3.4).
const MaxHost = 63

// CheckHost returns an error if a name is no label of a host: 1 to MaxHost lower-case letters, digits and
// hyphens, with a hyphen neither first nor last (RFC 1123, 2.1).
func CheckHost(name string) error {
	if n := len(name); n == 0 || n > MaxHost {
		return fmt.Errorf("netdev: host's name %q of %d bytes; 1 to %d are possible", name, n, MaxHost)
	}
	odd := strings.ContainsFunc(name, func(r rune) bool { return !inLabel(r) })
	if odd || strings.Trim(name, "-") != name {
		return fmt.Errorf("netdev: host's name %q; letters a to z, digits and hyphens inside are possible", name)
	}
	return nil
}

func inLabel(r rune) bool { return strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) }

// Host makes a name that CheckHost accepts of any name: that of a computer, for instance. It keeps what is
// before the first dot, in lower case, and has hyphens in place of all else. It is "" if nothing remains.
func Host(name string) string {
	name, _, _ = strings.Cut(name, ".")
	label := strings.Map(func(r rune) rune {
		if !inLabel(r) {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	label = strings.TrimLeft(label, "-")
	return strings.TrimRight(label[:min(len(label), MaxHost)], "-")
}
