package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/model/traffic"
	"github.com/stretchr/testify/require"
)

// The figures that .ci/bench compares with those of docs/figures.txt are counts, which do not depend
// on how fast or how busy a machine is. See docs/design/0053.

var figuresTo = flag.String("figures", "", "TestFigures: the file to which the counts are appended")

const figuresEnv = "NICLESS_TEST_FIGURES"

// sayFigure appends a figure to the file.
func sayFigure(t *testing.T, name string, value float64, unit string) {
	t.Helper()
	f, err := os.OpenFile(*figuresTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, "%s\t%.1f\t%s\n", name, value, unit)
	require.NoError(t, errors.Join(err, f.Close()))
}

// figureRows are the requests whose instructions are counted. The queues are warm, and a window is
// the work for one doorbell: the engine's step, the posting, or the polling.
func figureRows() (rows []touchRow) {
	for _, op := range []string{"write", "read", "send", "fetch-add"} {
		for _, batch := range []int{1, 16} {
			name := fmt.Sprintf("%s-db%d", op, batch)
			rows = append(rows, touchRow{name: name, op: op, bytes: 8, form: traffic.Form{Batch: batch, Ring: 64}, warm: warmDoorbells + countedDoorbells})
		}
	}
	return rows
}

// A row begins with warmDoorbells, more than a lap round most queues. Of countedDoorbells the least
// count is the figure: in the first of them the stack may grow. The least of four is at most 1.1% more than
// that of eight.
const warmDoorbells, countedDoorbells = 20, 4

// Over links, where a window is longer, fewer are counted.
const countedOnLinks = 2

// TestFiguresChild is no test, but the process whose instructions TestFigures counts.
func TestFiguresChild(t *testing.T) {
	if os.Getenv(figuresEnv) == "" {
		t.Skip("TestFigures runs it")
	}
	c := &stepped{t, json.NewEncoder(os.NewFile(3, "windows")), bufio.NewReader(os.Stdin)}
	window := func(name string, f func()) { c.watched(watching{Name: name}, f) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 2 {
		window("", func() {})
	}
	for _, r := range figureRows() {
		t.Run(r.name, func(t *testing.T) {
			runtime.LockOSThread() // the thread that is traced
			defer runtime.UnlockOSThread()
			c.t = t
			p := &posters{stage: c.stage(r)}
			p.open()
			for range warmDoorbells {
				p.doorbell(func(_ string, _ []touch, f func()) { f() })
			}
			p.execute = func(steps func()) { window("engine-"+r.name, steps) }
			for range countedDoorbells {
				p.doorbell(func(what string, _ []touch, f func()) {
					switch {
					case what == "receives" && r.op == "send":
						window("post-receive-"+r.name, f)
					case what == "posting":
						window("post-"+r.name, f)
					case what == "polls":
						window("poll-"+r.name, f)
					default:
						f()
					}
				})
			}
		})
	}
	for _, row := range wireRows {
		t.Run("link "+row.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c.t = t
			p, q := engines(t, poolRings, poolMTU)
			p.h.rig.e.Hooks.HeldClock, q.h.rig.e.Hooks.HeldClock = 1<<40, 1<<40
			f := row.flow(p, q)
			execute := func() {
				for f.done < f.posted {
					p.h.rig.e.Step()
					q.h.rig.e.Step()
					f.poll()
				}
			}
			name := "links-" + strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(row.name, ",", "")), " ", "-")
			for _, batch := range []int{16, 1} {
				for n := range warmDoorbells + countedOnLinks {
					f.post(batch)
					if n < warmDoorbells {
						execute()
					} else {
						window(fmt.Sprintf("%s-db%d", name, batch), execute)
					}
				}
			}
		})
	}
}

// countInstructions returns the instructions of all windows of TestFiguresChild, in order.
func countInstructions(t *testing.T) (names []string, counts map[string]int) {
	runtime.LockOSThread() // one thread must make all calls of ptrace; it ends with this test
	windows, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer windows.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFiguresChild$", "-test.timeout=0")
	// Neither the scheduler nor the garbage collector may add work of their own.
	cmd.Env = append(os.Environ(), figuresEnv+"=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off")
	cmd.ExtraFiles = []*os.File{theirs}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	acks, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_ = theirs.Close()
	defer func() { _ = cmd.Process.Kill() }()
	counts = make(map[string]int)
	for in := json.NewDecoder(bufio.NewReader(windows)); ; {
		var w watching
		if err := in.Decode(&w); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		tr, err := newTracer(w.TID)
		require.NoError(t, err)
		_, err = acks.Write([]byte{0})
		require.NoError(t, err)
		n, err := tr.count()
		tr.close()
		require.NoError(t, err, w.Name)
		if w.Name != "" { // that of an empty window
			n -= counts[""]
		}
		if least, known := counts[w.Name]; !known {
			names, counts[w.Name] = append(names, w.Name), n
		} else {
			counts[w.Name] = min(least, n)
		}
	}
	require.NoError(t, cmd.Wait(), output.String())
	return names, counts
}

// TestFigures appends figures to a file, for .ci/bench.
func TestFigures(t *testing.T) {
	if *figuresTo == "" {
		t.Skip("for .ci/bench, which gives -figures")
	}
	sayFigure(t, "memory-qp", heapOfQueuePair(t), "B")
	if !canTrace {
		t.Log("instructions are counted on amd64 only")
		return
	}
	names, counts := countInstructions(t)
	for _, n := range names[1:] {
		batch := 1
		if strings.HasSuffix(n, "-db16") {
			batch = 16
		}
		sayFigure(t, n, float64(counts[n])/float64(batch), "instructions")
	}
}

// heapOfQueuePair returns how much of the heap an engine needs for each of 10,000 queue pairs, which
// are connected in pairs and idle. They are of 100 clients, and use the same rings, which are not the
// engine's.
func heapOfQueuePair(t *testing.T) float64 {
	const clients, each = 100, 100
	r := newRig(t, Config{})
	type made struct {
		h       *host
		cq      uint32
		sq, rec uint64
	}
	var all []made
	for i := range clients {
		h := r.smallHost(fmt.Sprint(i))
		_, sq := h.take(4 << 10)
		_, rec := h.take(64)
		all = append(all, made{h, h.cq(control.CQ{LogSize: 6}).num, sq, rec})
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	for _, m := range all {
		var last *object.QP
		for range each {
			var q control.QPN
			require.NoError(t, m.h.try(control.OpCreateQP, &control.QP{PDN: m.h.pd, SendCQN: m.cq, RecvCQN: m.cq,
				SQ: m.sq, RQ: m.sq + 2<<10, DBRec: m.rec, LogSQ: 4, LogRQ: 4, LogRQStride: 4}, &q, nil))
			now := m.h.c.QPs[q.QPN]
			if last == nil {
				last = now
				continue
			}
			for _, two := range [][2]*object.QP{{now, last}, {last, now}} {
				e := &end{h: m.h, num: two[0].Num, q: two[0]}
				for _, a := range []control.QPAttr{e.toInit(), e.toRTR(two[1].Num), e.toRTS()} {
					a.QPN = e.num
					require.NoError(t, m.h.try(control.OpModifyQP, &a, &control.Empty{}, nil))
				}
			}
			last = nil
		}
	}
	after := live()
	runtime.KeepAlive(all)
	return float64(after-before) / (clients * each)
}

// smallHost is host with memory for a few queues.
func (r *rig) smallHost(name string) *host {
	h := &host{rig: r, base: 0x7000_0000_0000}
	var err error
	h.c, err = r.d.nic().NewLocal(name)
	require.NoError(r, err)
	r.Cleanup(func() { _ = h.c.Close() })
	h.mem, err = shm.Heap(64 << 10)
	require.NoError(r, err)
	h.region = h.addRegion(h.base, h.mem)
	h.pd = h.allocPD()
	return h
}
