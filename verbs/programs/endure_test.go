package programs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// The program that checks all data reports what is wrong by its kind, with an exit status for each.
func TestEnduranceTellsKinds(t *testing.T) {
	t.Parallel()
	long(t)
	p := linkedPlace{name: "pool", link: "pool", gid: "1"}
	path, whole := check(t, "planted"), newLinked(t, p)
	for planted, says := range map[string]string{
		"lost":     `endure: lost: server, round 10: the completion of a receive is 0xb, not 0xa\n$`,
		"repeated": `endure: repeated: server, round 11: the completion of a receive is 0xa, not 0xb\n$`,
		"bytes":    `endure: wrong bytes: server, round 10: byte 77 of 20011 that was written is 0x[0-9a-f]+, not 0x[0-9a-f]+\n$`,
	} {
		t.Run(planted, func(t *testing.T) {
			l := whole.with(t)
			port, stop := freeport.TCP(t), filepath.Join(t.TempDir(), "stop")
			server := l.start("env", "PLANTED="+planted, path, "serve", itoa(port), p.gid, brief, stop)
			listens(server, port)
			client := l.far.start(path, "connect", "127.0.0.1", itoa(port), p.gid, brief, stop)
			require.Regexp(t, says, server.fails())
			require.Equal(t, 3, server.cmd.ProcessState.ExitCode())
			if planted == "bytes" && strings.Contains(client.fails(), "that was read back") {
				return // the client has read the byte before the server looked at it
			}
			silent(t, client)
		})
	}
}
