//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

const replayed = "../../testdata/replays/rc_pingpong.nictrace"

// replays runs nicless replay, and returns what it prints.
func replays(args ...string) (status int, out, errs string) {
	var o, e strings.Builder
	status = run(append([]string{"replay"}, args...), strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

func TestReplayCommand(t *testing.T) {
	status, out, errs := replays(replayed)
	require.Zero(t, status, errs)
	require.Empty(t, errs)
	require.Equal(t, replayed+": the same: 16 WQEs, 32 completions, 16 messages of 4800 bytes\n", out)
}

// A test that compares nothing does not pass.
func TestReplayOfNothing(t *testing.T) {
	b, err := os.ReadFile(replayed)
	require.NoError(t, err)
	in, err := trace.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "idle.nictrace")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	w, err := trace.NewWriter(f, in.Clock())
	require.NoError(t, err)
	var e trace.Event
	for err = in.Next(&e); err == nil; err = in.Next(&e) {
		switch e.Kind {
		case trace.KindClient, trace.KindClientGone, trace.KindCQ, trace.KindKey, trace.KindQueue, trace.KindQueueGone, trace.KindState:
			require.NoError(t, w.Write(&e))
		}
	}
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, w.Close(e.Time, false))
	status, out, errs := replays(name)
	require.Equal(t, 1, status)
	require.Equal(t, name+": nothing was compared: 0 WQEs, 0 completions, 0 messages of 0 bytes\n", out)
	require.Contains(t, errs, name+": it has nothing that can be replayed")
}

// A byte of a completion and a byte of payload that are not what the device makes are found, and named.
func TestReplayNamesDifferences(t *testing.T) {
	b, err := os.ReadFile(replayed)
	require.NoError(t, err)
	at := trace.FileHeadSize
	changed := map[trace.Kind]bool{}
	for at < len(b) {
		e, size, err := trace.ParseRecord(b[at:])
		require.NoError(t, err)
		switch {
		case changed[e.Kind]:
		case e.Kind == trace.KindCQE:
			e.Data[47]++ // the low byte of byte_cnt
			changed[e.Kind] = true
		case e.Kind == trace.KindPayload:
			e.Data[100] ^= 0x80
			changed[e.Kind] = true
		}
		at += size
	}
	require.Len(t, changed, 2)
	name := filepath.Join(t.TempDir(), "changed.nictrace")
	require.NoError(t, os.WriteFile(name, b, 0o644))
	status, out, errs := replays(name)
	require.Equal(t, 1, status)
	require.Empty(t, errs)
	require.Regexp(t, `event \d+: cq 0x[0-9a-f]+ entry 0, of qp 0x[0-9a-f]+ receive 0: the completion differs\n  byte_cnt: recorded 301 .bytes., replayed 300 .bytes.`, out)
	require.Regexp(t, `event \d+: qp 0x[0-9a-f]+ wqe 0: bytes 0 to 299 of its message differ at the destination\n  checksum: recorded 0x`, out)
	require.Contains(t, out, ": 2 differences: 16 WQEs")

	status, _, _ = replays(name, replayed)
	require.Equal(t, 1, status, "one of two")
}

// Traces that cannot be replayed get an error that says why, and what to do.
func TestReplayRefuses(t *testing.T) {
	status, _, errs := replays(sampleTrace(t))
	require.Equal(t, 1, status)
	require.Contains(t, errs, "hint: record it with nicless run --trace FILE --replay")

	b, err := os.ReadFile(replayed)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"cut.nictrace":     {b[:len(b)/2], "cut short"},
		"empty.nictrace":   {nil, "it is empty"},
		"version.nictrace": {append(append(bytes.Clone(b[:8]), 2), b[9:]...), "version 2; this program reads version 1"},
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, c.b, 0o644))
		status, out, errs := replays(file)
		require.Equal(t, 1, status)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
		require.Contains(t, errs, name)
	}
	status, _, errs = replays()
	require.Equal(t, 2, status)
	require.Contains(t, errs, "the trace is missing")
	status, _, errs = replays("-")
	require.Equal(t, 2, status)
	require.Contains(t, errs, "no file")
	var o, e strings.Builder
	require.Equal(t, 2, run([]string{"run", "--replay", "true"}, strings.NewReader(""), &o, &e))
	require.Contains(t, e.String(), "--replay without --trace")
}
