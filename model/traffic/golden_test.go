package traffic_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/touches.txt")

// A row is an operation in one form.
type row struct {
	name  string
	op    string
	bytes int
	form  traffic.Form
}

var rows = []row{
	{"WRITE of 64 bytes", "write", 64, traffic.Form{}},
	{"WRITE of 28 bytes, inline", "write", 28, traffic.Form{Inline: true}},
	{"WRITE of 60 bytes, inline: two blocks", "write", 60, traffic.Form{Inline: true}},
	{"WRITE of 28 bytes, inline, BlueFlame", "write", 28, traffic.Form{Inline: true, BlueFlame: true}},
	{"WRITE of 64 bytes, BlueFlame", "write", 64, traffic.Form{BlueFlame: true}},
	{"WRITE of 3 times 64 bytes", "write", 192, traffic.Form{SGEs: 3}},
	{"WRITE of 4 KiB", "write", 4096, traffic.Form{}},
	{"WRITE of 64 bytes, unsignaled", "write", 64, traffic.Form{Signaled: 1000}},
	{"3 WRITEs of 64 bytes for one doorbell, the third signaled", "write", 64, traffic.Form{Batch: 3, Signaled: 3}},
	{"2 WRITEs for one doorbell, BlueFlame", "write", 64, traffic.Form{Batch: 2, BlueFlame: true}},
	{"WRITE of 64 bytes with CQEs of 128 bytes", "write", 64, traffic.Form{EntrySize: 128}},
	{"WRITE of 0 bytes", "write", 0, traffic.Form{}},
	{"WRITE_IMM of 64 bytes", "write-imm", 64, traffic.Form{}},
	{"READ of 64 bytes", "read", 64, traffic.Form{}},
	{"READ of 8 bytes into the CQE", "read", 8, traffic.Form{InlineCQE: true}},
	{"SEND of 64 bytes", "send", 64, traffic.Form{}},
	{"SEND of 64 bytes, the receive fetched before", "send", 64, traffic.Form{Prefetched: true}},
	{"SEND of 64 bytes to an SRQ", "send", 64, traffic.Form{SRQ: true}},
	{"SEND of 44 bytes, inline, BlueFlame", "send", 44, traffic.Form{Inline: true, BlueFlame: true}},
	{"SEND of 32 bytes into the CQE", "send", 32, traffic.Form{InlineCQE: true}},
	{"SEND of 64 bytes into the CQE of 128 bytes", "send", 64, traffic.Form{InlineCQE: true, EntrySize: 128}},
	{"SEND of 2 times 64 bytes into 4 pieces", "send", 128, traffic.Form{SGEs: 2, ReceiveSGEs: 4, Stride: 128}},
	{"2 SENDs of 64 bytes for one doorbell", "send", 64, traffic.Form{Batch: 2}},
	{"SEND_IMM of 64 bytes", "send-imm", 64, traffic.Form{}},
	{"fetch-and-add", "fetch-add", 8, traffic.Form{}},
	{"compare-and-swap, BlueFlame", "cmp-swap", 8, traffic.Form{BlueFlame: true}},
	{"masked compare-and-swap of 8 bytes", "masked-cmp-swap", 8, traffic.Form{}},
	{"masked fetch-and-add of 4 bytes", "masked-fetch-add", 4, traffic.Form{}},
	{"NOP", "nop", 0, traffic.Form{}},
	{"NOP, CQs with completion channels", "nop", 0, traffic.Form{Events: true}},
	{"NOP, BlueFlame", "nop", 0, traffic.Form{BlueFlame: true}},
	{"DUMP of 64 bytes", "dump", 64, traffic.Form{}},
	{"copy of 64 bytes", "copy", 64, traffic.Form{}},
}

// touches returns the accesses of the first doorbell after one and a half laps of rings of 16 entries,
// in words. So nothing happens that happens once in a lap.
func (r *row) touches(t *testing.T) string {
	f := r.form
	f.Ring = 16
	batch := max(f.Batch, 1)
	f.Requests = 24/batch*batch + batch
	trace, err := traffic.Synth(r.op, r.bytes, f)
	require.NoError(t, err, r.name)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.name)
	for _, a := range trace.Accesses {
		if a.Req == f.Requests-1 {
			_, words, _ := strings.Cut(a.String(), " ")
			fmt.Fprintf(&b, "\t%s\n", words)
		}
	}
	return b.String()
}

// The expansion of each operation in each form, in a file that a person can read.
func TestTouches(t *testing.T) {
	var b strings.Builder
	b.WriteString("The accesses of one doorbell in steady traffic. Rings have 16 entries.\n")
	for _, r := range rows {
		b.WriteString("\n" + r.touches(t))
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/touches.txt", []byte(b.String()), 0o666))
	}
	want, err := os.ReadFile("testdata/touches.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "go test -update rewrites the file")
}

// Every trace is well formed: Seq grows, Req does not decrease, regions are known, and After names
// earlier stores of other agents.
func TestTracesAreWellFormed(t *testing.T) {
	for _, r := range rows {
		f := r.form
		f.Ring, f.Requests = 16, 40
		trace, err := traffic.Synth(r.op, r.bytes, f)
		require.NoError(t, err, r.name)
		req := 0
		for i, a := range trace.Accesses {
			require.Equal(t, i+1, a.Seq, r.name)
			require.Contains(t, trace.Regions, a.Line.Region, r.name)
			require.Positive(t, a.N, r.name)
			require.Positive(t, a.Bytes, r.name)
			require.GreaterOrEqual(t, a.Req, req, r.name)
			req = a.Req
			for _, s := range a.After {
				require.Less(t, s, a.Seq, r.name)
				before := trace.Accesses[s-1]
				require.NotEqual(t, a.Who, before.Who, "%s: %v after %v", r.name, a, before)
				require.NotEqual(t, model.Load, before.Op, "%s: %v after %v", r.name, a, before)
			}
			if a.Why == model.Signal || a.Why == model.Complete {
				require.NotEqual(t, model.Load, a.Op, r.name)
			}
		}
		require.Equal(t, 39, req, r.name)
	}
}

// The device has polled every record or register in vain before it is written, and the pollers of
// completions every CQE, at least the first of those that come together.
func TestNewsArePolledInVain(t *testing.T) {
	for _, r := range rows {
		trace, err := traffic.Synth(r.op, r.bytes, r.form)
		require.NoError(t, err, r.name)
		news := traffic.HostRecord
		if r.form.BlueFlame {
			news = traffic.Registers
		}
		polled, completed := make(map[model.Line]bool), -1
		for _, a := range trace.Accesses {
			switch {
			case a.Why == model.Poll:
				polled[a.Line] = true
			case a.Why == model.Signal && a.Line.Region == news, a.Why == model.Complete && a.Line.Region == traffic.SendCQ && a.Req != completed:
				require.True(t, polled[a.Line], "%s: %v", r.name, a)
				delete(polled, a.Line)
				if a.Why == model.Complete {
					completed = a.Req
				}
			}
		}
	}
}

// The device looks at a consumer index once for each lap of a CQ.
func TestConsumerIndexIsReadOncePerLap(t *testing.T) {
	trace, err := traffic.Synth("send", 64, traffic.Form{Ring: 16, Requests: 100})
	require.NoError(t, err)
	reads := make(map[string]int)
	for _, a := range trace.Accesses {
		if a.Who == model.Dev && a.Kind == model.CI {
			reads[a.Line.Region]++
		}
	}
	require.Equal(t, map[string]int{traffic.SendCI: 6, traffic.RecvCI: 6}, reads)
}

func TestRefusals(t *testing.T) {
	for _, r := range []struct {
		op    string
		bytes int
		form  traffic.Form
		want  string
	}{
		{"swap", 8, traffic.Form{}, `operation "swap"; write, write-imm, read,`},
		{"write", -1, traffic.Form{}, "-1 bytes; 0 to 1048576 are possible"},
		{"write", 1 << 21, traffic.Form{}, "2097152 bytes"},
		{"read", 8, traffic.Form{Inline: true}, "RDMA_READ has no inline data"},
		{"fetch-add", 4, traffic.Form{}, "ATOMIC_FA of 4 bytes; 8 are possible"},
		{"write", 8, traffic.Form{SGEs: 9}, "9 and 1 pieces of memory for 8 bytes"},
		{"write", 2000, traffic.Form{Inline: true}, "at most 63"},
		{"write", 8, traffic.Form{Ring: 12}, "queue of 12 entries; powers of two are possible"},
		{"write", 8, traffic.Form{Ring: 4, Batch: 5}, "requests of 5 blocks together; the send ring has 4"},
		{"send", 8, traffic.Form{Ring: 4, Batch: 4, SRQ: true}, "4 receives together; there is room for 3"},
		{"send", 8, traffic.Form{ReceiveSGEs: 5}, "receives with 5 pieces of memory in 64 bytes"},
		{"send", 8, traffic.Form{EntrySize: 32}, "CQEs of 32 bytes; 64 and 128 are possible"},
		{"copy", 0, traffic.Form{}, "MMO of 0 bytes"},
		{"write", 8, traffic.Form{Batch: -1}, "each is at least 1"},
	} {
		_, err := traffic.Synth(r.op, r.bytes, r.form)
		require.ErrorContains(t, err, r.want)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	x, err := traffic.New(traffic.Config{})
	require.NoError(t, err)
	for want, r := range map[string]traffic.Request{
		"at least 16, the control segment": {},
		"names key 0x5":                    {WQE: []byte{3: 0x08, 7: 2, 27: 5, 31: 0}},
		"takes a receive: true":            {WQE: []byte{3: 0x0a, 7: 1, 15: 0}},
		"asks for an event":                {WQE: []byte{7: 1, 11: 0x0c, 15: 0}},
		"is not executed":                  {WQE: []byte{3: 0x3f, 7: 1, 15: 0}},
	} {
		require.ErrorContains(t, x.Expand(r), want)
	}
	require.Empty(t, x.Trace().Accesses)
	_, err = traffic.New(traffic.Config{Memory: []traffic.Memory{{Region: "sq"}}})
	require.ErrorContains(t, err, `memory "sq"`)
}
