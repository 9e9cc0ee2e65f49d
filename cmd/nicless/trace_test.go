package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// sampleTrace writes the trace of package tracetest to a file.
func sampleTrace(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sample.nictrace")
	require.NoError(t, os.WriteFile(name, tracetest.File(t, tracetest.Sample(t)), 0o644))
	return name
}

// shown runs nicless trace show, and returns what it prints.
func shown(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = run(append([]string{"trace", "show"}, args...), strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

func TestTraceText(t *testing.T) {
	status, out, errs := shown(t, sampleTrace(t), "--utc")
	require.Zero(t, status, errs)
	require.Empty(t, errs)
	want, err := os.ReadFile("../../trace/text/testdata/sample.txt")
	require.NoError(t, err)
	require.Equal(t, string(want)+"10:00:00.000012701 trace ends after 127 events, because the engine has stopped\n", out)
}

// The form follows from the ending of the file, or from the flag.
func TestTraceForms(t *testing.T) {
	in, dir := sampleTrace(t), t.TempDir()
	for _, f := range traceForms {
		out := filepath.Join(dir, "out"+f.endings[0])
		status, stdout, errs := shown(t, in, "-o", out, "--utc")
		require.Zero(t, status, errs)
		require.Empty(t, stdout+errs)
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		require.NotEmpty(t, b)
		status, stdout, errs = shown(t, in, "--format", f.name, "--utc")
		require.Zero(t, status, errs)
		require.Equal(t, string(b), stdout, f.name)
		require.Contains(t, traceShowUsage, f.name+strings.Repeat(" ", 10-len(f.name))+f.endings[0])
	}
	raw, err := os.ReadFile(in)
	require.NoError(t, err)
	copied, err := os.ReadFile(filepath.Join(dir, "out.nictrace"))
	require.NoError(t, err)
	end := len(raw) - trace.HeadSize
	require.Equal(t, raw[:end], copied[:end], "all events, unchanged")
}

// nicless model prices the accesses of a trace.
func TestTraceIsPriced(t *testing.T) {
	status, out, errs := shown(t, sampleTrace(t), "--format", "lines")
	require.Zero(t, status, errs)
	var priced, e strings.Builder
	status = run([]string{"model", "--trace", "-", "--preset", "cxl1-fpga"}, strings.NewReader(out), &priced, &e)
	require.Zero(t, status, e.String())
	require.Contains(t, priced.String(), "cxl1-fpga")

	// The trace itself has no accesses.
	in := sampleTrace(t)
	e.Reset()
	require.Equal(t, 1, run([]string{"model", "--trace", in}, strings.NewReader(""), &priced, &e))
	require.Contains(t, e.String(), "hint: nicless trace show "+in+" --format lines | nicless model --trace -")
	e.Reset()
	require.Equal(t, 1, run([]string{"decode", in}, strings.NewReader(""), &priced, &e))
	require.Contains(t, e.String(), "hint: nicless trace show FILE")
}

func TestTraceChoice(t *testing.T) {
	in := sampleTrace(t)
	queues := func(out string) map[string]bool {
		found := map[string]bool{}
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); words[1] == "qp" || words[1] == "client" {
				found[words[1]+" "+words[2]] = true
			}
		}
		return found
	}
	_, out, errs := shown(t, in, "--qp", "0x51")
	require.Empty(t, errs)
	require.Equal(t, map[string]bool{"qp 0x51": true, "client 1": true}, queues(out))
	require.Contains(t, out, "17 events lost")
	require.Contains(t, out, "link ")
	_, out, _ = shown(t, in, "--client", "4712")
	require.Equal(t, map[string]bool{"qp 0x52": true, "qp 0x54": true, "qp 0x1": true, "client 2": true}, queues(out))
	require.Contains(t, out, "key 0x1a201")
	_, out, _ = shown(t, in, "--program", "put")
	require.Equal(t, map[string]bool{"qp 0x51": true, "qp 0x53": true, "qp 0x55": true, "qp 0x56": true, "client 1": true}, queues(out))

	// A trace of the events that are chosen is a whole trace.
	some := filepath.Join(t.TempDir(), "some.nictrace")
	status, _, errs := shown(t, in, "--qp", "0x52", "-o", some)
	require.Zero(t, status, errs)
	_, direct, _ := shown(t, in, "--qp", "0x52")
	status, out, errs = shown(t, some)
	require.Zero(t, status, errs)
	require.Equal(t, strings.Split(direct, "trace ends")[0], strings.Split(out, "trace ends")[0])

	for flag, note := range map[string]string{"--qp 7": "no event of qp 0x7", "--client 9": "no client of process 9",
		"--program \x1b": `no client with the name "\x1b"`} {
		args := append([]string{in}, strings.Fields(flag)...)
		status, _, errs := shown(t, args...)
		require.Zero(t, status)
		require.Contains(t, errs, "nicless: note: the trace has "+note)
	}
}

// The whole part of a trace is shown, and an error says where it ends.
func TestTraceCutOrDamaged(t *testing.T) {
	whole, err := os.ReadFile(sampleTrace(t))
	require.NoError(t, err)
	_, all, _ := shown(t, sampleTrace(t), "--utc")
	name := filepath.Join(t.TempDir(), "\x1b.nictrace")
	for _, n := range []int{trace.FileHeadSize, trace.FileHeadSize + 5, 1000, len(whole) / 2, len(whole) - 1} {
		require.NoError(t, os.WriteFile(name, whole[:n], 0o644))
		status, out, errs := shown(t, name, "--utc")
		require.Equal(t, 1, status)
		require.True(t, strings.HasPrefix(all, out))
		require.Contains(t, errs, "trace: cut short: there is no end")
		require.Contains(t, errs, "events shown: ")
		requireOneLineEach(t, errs)
	}
	damaged := append([]byte(nil), whole...)
	damaged[1000&^7] = 0xff // may be within data: then all records are whole
	at := trace.FileHeadSize + 40
	damaged[at], damaged[at+1] = 0x11, 0
	require.NoError(t, os.WriteFile(name, damaged, 0o644))
	status, out, errs := shown(t, name, "--utc")
	require.Equal(t, 1, status)
	require.Equal(t, 2, strings.Count(out, "\n"), out)
	require.Contains(t, errs, "record at byte 104: size 17")
	require.Contains(t, errs, "events shown: 1")

	for text, want := range map[string]string{"": "it is empty", "PK\x03\x04": "it begins with \"PK\\x03\\x04\"",
		"nicltrac\x02": "9 bytes; the header has 64", "nicltrac\x02" + strings.Repeat("\x00", 60): "version 2; this program reads version 1"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		status, out, errs := shown(t, name)
		require.Equal(t, 1, status)
		require.Empty(t, out)
		require.Contains(t, errs, want)
		requireOneLineEach(t, errs)
	}
}

// requireOneLineEach requires lines that a terminal shows as they are.
func requireOneLineEach(t *testing.T, errs string) {
	t.Helper()
	for line := range strings.Lines(errs) {
		require.Regexp(t, `^nicless: (error|hint|note): [^\x00-\x1f\x7f]+\n$`, line)
	}
}

func TestTraceUsage(t *testing.T) {
	in := sampleTrace(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "one file is needed, 0 arguments were given"},
		{[]string{in, "--format", "xml"}, `--format "xml" does not exist`},
		{[]string{in, "-o", "x.mp3"}, "the ending of x.mp3 says no form"},
		{[]string{in, "--qp", "0"}, "--qp 0: numbers of queue pairs begin at 1"},
		{[]string{in, "--qp", "0x1000000"}, `--qp "0x1000000" is not a number below 2^24`},
		{[]string{in, "--client", "-1"}, `--client "-1" is not a process id`},
		{[]string{in, "--client", "1", "--qp", "1"}, "--qp, --client and --program exclude each other"},
	} {
		status, out, errs := shown(t, c.args...)
		require.Equal(t, 2, status)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
	before, err := os.ReadFile(in)
	require.NoError(t, err)
	status, _, errs := shown(t, in, "-o", filepath.Join(filepath.Dir(in), ".", "sample.nictrace"))
	require.Equal(t, 2, status)
	require.Contains(t, errs, "is the trace itself")
	after, err := os.ReadFile(in)
	require.NoError(t, err)
	require.Equal(t, before, after)
	status, _, errs = shown(t, filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, errs, "none: no such file")
}
