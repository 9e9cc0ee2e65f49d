//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dirty are texts that would change what a terminal shows.
var dirty = []string{"\x1b[2Jgone", "one\nnicless: error: two", "\u202eexe.gnp", "\u2066a\u2069", "\xff\xfe\x80", "bell\x07", "\u009b31m", "a\tb\r"}

func requirePlain(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%q in %q", r, out)
	}
}

// Names and texts that peers, nodes and programs have a part in cannot change what a terminal shows.
func TestOutputIsPlain(t *testing.T) {
	for _, s := range dirty {
		t.Run(fmt.Sprintf("%q", s), func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "engine")
			report := []links.Report{{Link: s, Why: s, About: s, Peers: []fabric.Peer{{Name: s, Why: s}, {Name: s, Up: true, Faults: 2}}}}
			stop, err := unixsock.Report(socket+nicless.LinksSuffix, 0o600, func() any { return report })
			require.NoError(t, err)
			defer stop()
			var out strings.Builder
			require.NoError(t, printLinks(t.Context(), &out, socket, false, linkTable{}, 0))
			requirePlain(t, out.String())
			require.Equal(t, 7, strings.Count(out.String(), "\n"), "a line break in a name makes no line: %q", out.String())
			require.Contains(t, out.String(), "up, made anew after 2 faults")

			l, err := net.Listen("unixpacket", socket)
			require.NoError(t, err)
			defer l.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept()
				if !assert.NoError(t, err) {
					return
				}
				defer c.Close()
				for _, text := range []string{s, verbs.IfFailed + s} {
					_, err = fmt.Fprintf(c, "7\x1b,%d %s", os.Getpid(), text)
					assert.NoError(t, err)
				}
			}()
			out.Reset()
			end, err := printExplanations(socket, &out, 0)
			require.NoError(t, err)
			<-done
			end(&hinted{status: 1})
			require.Contains(t, out.String(), "nicless: explanation: pid 7?")
			requirePlain(t, out.String())
		})
	}
}
