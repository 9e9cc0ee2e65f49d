package engine

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var mutations = flag.Bool("mutations", false, "TestPlanted*: builds the engine with each planted change (some minutes)")

// planted are changes of the source that make the fast path differ from the slow path. Each
// function of the fast path that executes WQEs has at least one of them.
var planted = []struct{ name, file, old, new string }{
	{"WRITE: a byte less", "fastpath_move.go", "copy(far, near)", "copy(far[:len(far)-1], near)"},
	{"WRITE: the key's right is not asked for", "fastpath_move.go", "remote.access&need == 0", "remote.access == 0 && need != 0"},
	{"WRITE: the queue pair's right is not asked for", "fastpath_move.go", "p.attr.Access&need != 0", "p.attr.Access != 0"},
	{"WRITE: any domain", "fastpath_move.go", "!remote.serves(p)", "remote.client != p.client"},
	{"WRITE, inline: one byte too far on", "fastpath_move.go", "near = b[dataOffset+wqe.InlineHead:][:n]", "near = b[dataOffset+wqe.InlineHead+1:][:n]"},
	{"READ: no byte count", "fastpath_move.go", "bytes = n\n", "bytes = 0\n"},
	{"READ: into memory that may not be written", "fastpath_move.go", "local.access&control.AccessLocalWrite == 0", "local.access == control.AccessLocalWrite<<30"},
	{"READ: of a responder that takes none", "fastpath_move.go", "p.attr.MaxDestRdAtomic != 0", "p.attr.MaxDestRdAtomic < 255"},
	{"SEND: the receive is not counted", "fastpath_send.go", "p.client.count[control.CounterReceives]++", ""},
	{"SEND: not solicited", "fastpath_send.go", "attention = solicited", "attention = event"},
	{"SEND, inline: one byte too far on", "fastpath_send.go", "near = b[wqe.CtrlSize+wqe.InlineHead:][:n]", "near = b[wqe.CtrlSize+wqe.InlineHead+1:][:n]"},
	{"SEND: into a receive that is too short", "fastpath_send.go", "room < n ||", "room+1 < n ||"},
	{"SEND_IMM: without the immediate", "fastpath_send.go", "imm = h.imm()", "imm = 0"},
	{"FETCH_ADD: one more", "fastpath_atomic.go", "shm.Add(far, operand)", "shm.Add(far, operand+1)"},
	{"FETCH_ADD: the old value in another order", "fastpath_atomic.go", "binary.LittleEndian.PutUint64(near, old)", "binary.BigEndian.PutUint64(near, old)"},
	{"FETCH_ADD: the key's right is not asked for", "fastpath_atomic.go", "remote.access&control.AccessRemoteAtomic == 0", "remote.access == 0"},
	{"FETCH_ADD: the result under any key", "fastpath_atomic.go", "local.pd != q.pd || ", ""},
	{"FETCH_ADD: any window of the domain", "fastpath_atomic.go", "!remote.serves(p)", "remote.client != p.client"},
	{"SEND: the sender's user index", "fastpath_send.go", "sh.complete(p.rq.cq, q.num, p.uidx", "sh.complete(p.rq.cq, q.num, q.uidx"},
	{"SEND: an event for every message", "fastpath_send.go", "attention := quietly", "attention := event"},
	{"completions: an event for each", "fastpath.go", "tail, quietly) {", "tail, event) {"},
	{"CMP_SWAP: operands the other way round", "fastpath_atomic.go", "shm.CompareAndSwap(far, b.Word(5), operand)", "shm.CompareAndSwap(far, operand, b.Word(5))"},
	{"series: a WRITE of another opcode", "fastpath_series_move.go", "(b.Word(0)^first)|", "(b.Word(0)^first)&^(0xff<<32)|"},
	{"series: a WRITE to any address", "fastpath_series_move.go", "to > farLast", "to > farLast && op == 0"},
	{"series: a WRITE under another key", "fastpath_series_move.go", "|(b.Word(3)^rkey)>>32", "|(b.Word(3)^rkey)>>32&0"},
	{"series: the keys' ends", "fastpath_series_move.go", "at > nearLast", "at > nearLast && op == 0"},
	{"series: a SEND into a receive under another key", "fastpath_series_send.go", ".Observe() != piece", ".Observe()>>32 != piece>>32"},
	{"series: a SEND past the end of a receive's key", "fastpath_series_send.go", "uint64(len(far)) - m.piece>>32", "uint64(len(far)) - n"},
	{"series: the receives are not counted", "fastpath_series.go", "p.client.count[control.CounterReceives] += uint64(n)", ""},
	{"series: unsignaled WQEs complete", "fastpath_series.go", "if x>>i&1 != 0 {", "{"},
	{"series: a READ without a byte count", "fastpath_series.go", "bytes = s.bytes", "bytes = 0"},
	{"series: in a queue that is armed", "cq.go", " && !q.armed }", " }"},
	{"series: the place is not compared", "fastpath_series.go", " || h.place() != place(q.num, q.sq.done)", ""},
	{"series: the second half of a payload", "fastpath_series.go", "head, tail := le.Uint64(src), le.Uint64(src[len(src)-8:])", "head, tail := le.Uint64(src), le.Uint64(src)"},
	{"the register: executed twice", "blueflame.go", "q.sq.ahead++", "q.sq.ahead++; q.sq.done--"},
	{"completions: unsignaled ones too", "fastpath.go", "h.ce() != wqe.CEAlways", "h.ce() == wqe.CEEvent"},
	{"counters: bytes", "fastpath.go", "+= moved", "+= moved + 1"},
	{"a wrong index is not said", "fastpath.go", "|| !q.misplacedNews(h)", "|| true"},
}

// sourceOf returns the source of a file of this package, in which the text old occurs once.
func sourceOf(t *testing.T, file, old string) string {
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), old), "%q in %s", old, file)
	return string(source)
}

// What TestPlantedDifferences replaces is in the source. This test needs no build.
func TestDifferencesCanBePlanted(t *testing.T) {
	for _, m := range planted {
		sourceOf(t, m.file, m.old)
	}
	for _, m := range plantedRules {
		sourceOf(t, m.file, m.old)
	}
}

// Each difference that is planted in the fast path makes the comparison of the paths fail. The
// engine is built into a test binary once for each difference.
func TestPlantedDifferences(t *testing.T) {
	if !*mutations {
		t.Skip("builds the engine many times; go test ./engine -run TestPlantedDifferences -mutations")
	}
	for _, m := range planted {
		t.Run(m.name, func(t *testing.T) { plant(t, m.file, m.old, m.new, "TestFastPathAgrees") })
	}
}

// plant builds the engine's tests with a change of the source. One of the tests whose names begin
// so has to fail. Building keeps one core busy for the most part, so several changes are planted side
// by side. It is two thirds of the time, so the compiler does not optimize and the linker keeps no symbols.
func plant(t *testing.T, file, old, new, tests string) {
	t.Parallel()
	path, err := filepath.Abs(file)
	require.NoError(t, err)
	dir := t.TempDir()
	changed := filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(sourceOf(t, file, old), old, new, 1)), 0o644))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o644))
	binary := filepath.Join(dir, "engine.test")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-N -l", "-ldflags=-s -w", "-overlay", list, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(binary, "-test.timeout", "1m", "-rapid.nofailfile", "-test.run", "^("+tests+")").CombinedOutput()
	require.Error(t, err, "the difference is not found")
	require.Regexp(t, "--- FAIL: ("+tests+")|panic: test timed out", string(out), "it fails for another reason")
}
