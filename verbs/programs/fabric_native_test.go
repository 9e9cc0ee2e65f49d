package programs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// copies copies a file over the link, by a program in Go that uses package nicless: the receiver is a
// client of one engine, the sender of the other. Over RoCE the engines know each other by the addresses
// in the programs' descriptors.
func (l *lab) copies(t *testing.T) {
	t.Helper()
	filecopy := buildGo(t, "tools/filecopy")
	dir := t.TempDir()
	in, out, peer := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "peer")
	content := make([]byte, 20_000_001)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content)
	require.NoError(t, os.WriteFile(in, content, 0o600))
	crossed := l.far.crossed()
	recv := start(t, nil, append(l.inside[:len(l.inside):len(l.inside)], filecopy, "-role", "recv", "-socket", l.socket, "-peer", peer, "-out", out)...)
	recv.says("receiver, pid ")
	send := start(t, nil, append(l.far.inside[:len(l.far.inside):len(l.far.inside)], filecopy, "-role", "send", "-socket", l.far.socket, "-peer", peer, "-in", in)...)
	send.awaits("it ends", func() bool { crossed.count(); return send.ended() })
	send.succeeds()
	recv.succeeds()
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got), "the copy of %d bytes has %d, and they differ", len(content), len(got))
	crossed.reaches(uint64(len(content)>>20), "the file did not cross the link")
}
