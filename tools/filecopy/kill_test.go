package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKill ends one of the three processes in the middle of a copy. The other two then
// end by themselves, and the target is unchanged.
func TestKill(t *testing.T) {
	const again = `\nfilecopy: hint: .*/out is as it was, or complete; copy again\n$`
	for _, c := range []struct {
		what   string
		sig    unix.Signal
		code   int
		stderr string
	}{
		{"engine", unix.SIGKILL, 1, `^filecopy: error: (receiver: )?the engine has stopped \(engine: signal: killed\)` + again},
		{"engine", unix.SIGTERM, 1, `^filecopy: error: (receiver: )?the engine has stopped\n$`},
		{"receiver", unix.SIGKILL, 1, `^filecopy: error: the receiver has gone away \(receiver: signal: killed\)` + again},
		{"receiver", unix.SIGTERM, 1, `^filecopy: error: receiver: terminated signal received\n$`},
		{"sender", unix.SIGKILL, -1, `^$`},
		{"sender", unix.SIGTERM, 1, `^filecopy: error: terminated signal received\n$`},
		{"sender", unix.SIGINT, 1, `^filecopy: error: interrupt signal received\n$`},
	} {
		t.Run(c.what+" "+unix.SignalName(c.sig), func(t *testing.T) {
			p := newPlace(t)
			require.NoError(t, os.WriteFile(p.path("out"), []byte("old"), 0o600))
			r := p.halfway(t, p.path("out"))
			r.kill(c.what, c.sig)
			got := r.wait()
			assert.Equal(t, c.code, got.code)
			assert.Regexp(t, c.stderr, got.stderr)
			requireContent(t, p.path("out"), []byte("old"))
			if c.sig == unix.SIGKILL && c.what == "sender" {
				// The process that starts the others was killed and could not clean up.
				// Its sockets are left.
				require.NoError(t, os.RemoveAll(p.tmp))
				require.NoError(t, os.Mkdir(p.tmp, 0o700))
			}
		})
	}
}

// TestEnd checks that the same copy succeeds if no process is killed.
func TestEnd(t *testing.T) {
	p := newPlace(t)
	r := p.halfway(t, p.path("out"))
	require.NoError(t, r.in.Close())
	got := r.wait()
	require.Zero(t, got.code, got.stderr)
	requireContent(t, p.path("out"), content(1<<20+2*slots*4096))
}
