package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// badTrace writes a trace of a program that destroys a queue pair with a WQE in flight and never polls, and
// returns its name.
func badTrace(t *testing.T, recorded bool) string {
	x := tracetest.New(t)
	x.Add(trace.Event{Kind: trace.KindClient, Queue: 1, Value: 4711, Data: []byte(tracetest.HostileName)})
	x.Add(trace.Event{Kind: trace.KindCQ, Queue: 3, Index: trace.KeyMade, Value: 1,
		Data: trace.CQSetup{LogSize: 4, LogEntry: 6}.Append(nil)})
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	x.Queue(0x52, 1, 0x51, trace.RC, 0)
	x.Do(0x51, "write_signaled", 128, "req_write", 0, "")
	x.Post(0x51, "write_signaled")
	x.Add(trace.Event{Kind: trace.KindState, Queue: 0x51, Count: uint16(trace.RTS)<<8 | uint16(trace.RST)})
	x.Add(trace.Event{Kind: trace.KindQueueGone, Queue: 0x51})
	if recorded {
		x.Add(trace.Event{Kind: trace.KindPolled, Queue: 3})
	}
	x.Add(trace.Event{Kind: trace.KindCQ, Queue: 3, Index: trace.KeyGone, Data: make([]byte, cqe.Size)})
	var b bytes.Buffer
	w, err := trace.NewWriter(&b, tracetest.Clock)
	require.NoError(t, err)
	for i := range x.Events {
		require.NoError(t, w.Write(&x.Events[i]))
	}
	require.NoError(t, w.Close(x.Events[len(x.Events)-1].Time, false))
	name := filepath.Join(t.TempDir(), "bad.nictrace")
	require.NoError(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

func TestShowSanitized(t *testing.T) {
	status, out, errs := shown(t, badTrace(t, true), "--sanitize")
	require.Equal(t, statusSanitized, status)
	require.Contains(t, out, "ERROR: nicless sanitizer: never-polled: a completion queue had a completion")
	require.Contains(t, out, "ERROR: nicless sanitizer: destroyed-in-flight: a queue pair was destroyed in RTS")
	require.NotContains(t, out, "\x1b")
	require.Contains(t, errs, "nicless: note: sanitizer: 2 errors\n")

	status, out, errs = shown(t, badTrace(t, false), "--sanitize", "--format", "json")
	require.Equal(t, statusSanitized, status)
	require.Contains(t, out, `{"code":"destroyed-in-flight","severity":"error"`)
	require.NotContains(t, out, "never-polled")
	require.Contains(t, errs, "the events were not recorded for a sanitizer")

	for _, args := range [][]string{{"--strict"}, {"--sanitize", "--qp", "5"}, {"--sanitize", "--format", "lines"}} {
		status, _, errs = shown(t, append([]string{"x"}, args...)...)
		require.Equal(t, 2, status, "%v: %s", args, errs)
	}
}
