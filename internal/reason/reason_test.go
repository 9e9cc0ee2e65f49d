package reason

import (
	"bufio"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// page returns the memory of a status page as the device makes it.
func page(t *testing.T) (memory []byte, w *Writer) {
	t.Helper()
	r, err := shm.Heap(control.StatusSize + Size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r.Bytes(), NewWriter(r.Bytes())
}

// golden was written by hand from the table in docs/CONTROL.md: reason 1 of the WQE at block 7 of queue pair
// 0x000abc.
const golden = `
0100000000000000 bc0a0000 0700 00 01
0300000000000000 de0a0000 0500 01 13
6b65792d61636365737300000000000000000000 00000000
0400 000000000000
00000b08 000abc03 00000008 00000000
00000000 00000000 00000000 00000000
00000000 00000000 00000000 00000000
00000000 00000000 00000000 00000000
74657874`

var goldenReason = Reason{Number: 1, Place: Place{0xabc, 7, OfWQE}, CauseOf: 3, Cause: Place{0xade, 5, OfReceive},
	Syndrome: 0x13, Code: "key-access", Text: "text"}

func TestGolden(t *testing.T) {
	want, err := hex.DecodeString(strings.Join(strings.Fields(golden), ""))
	require.NoError(t, err)
	memory, w := page(t)
	r := goldenReason
	r.WQE = want[offWQE:offText]
	require.Equal(t, uint64(1), w.Write(&r))
	got := memory[control.StatusSize:][:EntrySize]
	require.Equal(t, want, got[:len(want)])
	require.Equal(t, make([]byte, EntrySize-len(want)), got[len(want):])

	found, overrun := NewRing(memory).Find(Place{0xabc, 7, OfWQE}, false)
	require.False(t, overrun)
	require.Equal(t, &r, found)
}

// The table in docs/CONTROL.md has the offsets and sizes of this package.
func TestPageListsReasons(t *testing.T) {
	f, err := os.Open("../../docs/CONTROL.md")
	require.NoError(t, err)
	defer f.Close()
	row := regexp.MustCompile(`^\| (\d+) \| (\d+) \| (\w+) \|`)
	got := make(map[string][2]int)
	in := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			in = lines.Text() == "### Reasons"
		}
		if m := row.FindStringSubmatch(lines.Text()); in && m != nil {
			at, _ := strconv.Atoi(m[1])
			n, _ := strconv.Atoi(m[2])
			got[m[3]] = [2]int{at, n}
		}
	}
	require.Equal(t, map[string][2]int{
		"number": {offNumber, 8}, "queue": {offQueue, 4}, "index": {offIndex, 2}, "of": {offOf, 1}, "has_wqe": {offHasWQE, 1},
		"cause_of": {offCauseOf, 8}, "cause_queue": {offCauseQueue, 4}, "cause_index": {offCauseIndex, 2},
		"cause_kind": {offCauseKind, 1}, "syndrome": {offSyndrome, 1}, "code": {offCode, CodeSize},
		"text_bytes": {offTextBytes, 2}, "wqe": {offWQE, WQESize}, "text": {offText, TextSize},
	}, got)
	require.Equal(t, []int{control.OfWQE, control.OfReceive, control.OfCompletion}, []int{OfWQE, OfReceive, OfCompletion})
}

// Which entry belongs to a completion.
func TestFind(t *testing.T) {
	const q, other, flush = 0xabc, 0xdef, 5
	wqe := func(i uint16) Place { return Place{q, i, OfWQE} }
	receive := func(i uint16) Place { return Place{q, i, OfReceive} }
	fault := func(p Place, text string) *Reason { return &Reason{Place: p, Syndrome: 4, Text: text} }
	stop := func(p Place, text string) *Reason { return &Reason{Place: p, Text: text} }
	for name, row := range map[string]struct {
		ring []*Reason
		at   Place
		s    uint8
		want string // empty: none
	}{
		"its own":                    {[]*Reason{fault(wqe(3), "a"), fault(wqe(4), "b")}, wqe(3), 4, "a"},
		"the newest of two lives":    {[]*Reason{fault(wqe(3), "a"), fault(wqe(3), "b")}, wqe(3), 4, "b"},
		"another queue":              {[]*Reason{fault(Place{other, 3, OfWQE}, "a")}, wqe(3), 4, ""},
		"another kind":               {[]*Reason{fault(receive(3), "a")}, wqe(3), 4, ""},
		"a fault that stopped first": {[]*Reason{stop(wqe(3), "a")}, wqe(3), 4, "a"},
		"a flush after the fault":    {[]*Reason{fault(wqe(3), "a"), fault(Place{other, 1, OfWQE}, "b")}, wqe(9), flush, "a"},
		"a flush after the wrap":     {[]*Reason{fault(wqe(0xfffe), "a")}, wqe(1), flush, "a"},
		"a flush before the fault":   {[]*Reason{fault(wqe(9), "a")}, wqe(3), flush, ""},
		"a flush polled late":        {[]*Reason{fault(wqe(3), "a"), fault(wqe(9), "b")}, wqe(5), flush, "a"},
		"a flush at the stop":        {[]*Reason{stop(wqe(3), "a")}, wqe(3), flush, "a"},
		"a flush is no fault":        {[]*Reason{fault(wqe(3), "a")}, wqe(3), flush, ""},
		"a receive that is flushed":  {[]*Reason{fault(wqe(30), "a")}, receive(2), flush, "a"},
		"a stream's flush":           {[]*Reason{{Place: wqe(3), Syndrome: flush, Text: "a"}, fault(wqe(2), "b"), {Place: wqe(4), Syndrome: flush, Text: "c"}}, wqe(3), flush, "b"},
		"a stream's flush, newest":   {[]*Reason{fault(wqe(2), "b"), {Place: wqe(3), Syndrome: flush, Text: "a"}}, wqe(3), flush, "a"},
		"a stream's flush, no fault": {[]*Reason{{Place: wqe(3), Syndrome: flush, Text: "a"}}, wqe(3), 4, ""},
	} {
		memory, w := page(t)
		for _, r := range row.ring {
			w.Write(r)
		}
		got, overrun := NewRing(memory).Find(row.at, row.s == flush)
		require.False(t, overrun, name)
		if row.want == "" {
			require.Nil(t, got, name)
			continue
		}
		require.NotNil(t, got, name)
		require.Equal(t, row.want, got.Text, name)
	}
}

func TestOverrun(t *testing.T) {
	memory, w := page(t)
	ring := NewRing(memory)
	at := func(i int) Place { return Place{0xabc, uint16(i), OfWQE} }
	for i := range 3*Entries + 5 {
		w.Write(&Reason{Place: at(i), Syndrome: 4, Text: strconv.Itoa(i)})
		for j := range i + 1 {
			r, overrun := ring.Find(at(j), false)
			lost := j+Entries <= i
			require.Equal(t, lost, overrun)
			if !lost {
				require.Equal(t, strconv.Itoa(j), r.Text)
			}
		}
	}
}

// Long texts are cut between two characters. A terminal gets no commands.
func TestTexts(t *testing.T) {
	memory, w := page(t)
	p := Place{1, 2, OfWQE}
	for text, want := range map[string]string{
		strings.Repeat("x", TextSize):         strings.Repeat("x", TextSize),
		strings.Repeat("x", TextSize+1):       strings.Repeat("x", TextSize),
		strings.Repeat("x", TextSize-1) + "µ": strings.Repeat("x", TextSize-1),
		"a\x1b[2Jb\n":                         "a?[2Jb?",
		"":                                    "",
	} {
		w.Write(&Reason{Place: p, Syndrome: 4, Text: text})
		r, _ := NewRing(memory).Find(p, false)
		require.Equal(t, want, r.Text)
	}
}

// Memory of an older device, or of one that is mistaken, has no ring. Bytes of any value do no harm.
func TestStrangeMemory(t *testing.T) {
	require.Nil(t, NewRing(nil))
	require.Nil(t, NewRing(make([]byte, control.StatusSize)))
	memory, w := page(t)
	for off, v := range map[uint64]uint64{control.StatusReasons: 1 << 40, control.StatusReasonSize: 256,
		control.StatusReasonOffset: 1 << 62} {
		was := shm.Word64At(memory, off).Observe()
		shm.Word64At(memory, off).Publish(v)
		require.Nil(t, NewRing(memory), "word %d", off)
		shm.Word64At(memory, off).Publish(was)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	ring := NewRing(memory)
	for range 2000 {
		w.Write(&goldenReason)
		at := control.StatusSize + (w.last-1)%Entries*EntrySize
		for range 4 {
			memory[at+8+uint64(rng.IntN(EntrySize-8))] = byte(rng.Uint32())
		}
		r, _ := ring.Find(Place{0xabc, 7, OfWQE}, rng.IntN(2) == 0)
		if r != nil {
			require.LessOrEqual(t, len(r.Text), 3*TextSize) // a byte that is no character takes three
		}
	}
}

// A reader finds whole reasons or none while the device overwrites the ring.
func TestReaderBesideTheWriter(t *testing.T) {
	memory, w := page(t)
	ring := NewRing(memory)
	var writer sync.WaitGroup
	const n = 20_000
	writer.Go(func() {
		for i := range n {
			digit := strconv.Itoa(i % 10)
			w.Write(&Reason{Place: Place{uint32(i % 10), 1, OfWQE}, Syndrome: 4, Code: strings.Repeat(digit, CodeSize),
				Text: strings.Repeat(digit, TextSize), WQE: []byte(strings.Repeat(digit, WQESize))})
		}
	})
	found := 0
	for i := 0; ring.Last() < n; i++ {
		digit := strconv.Itoa(i % 10)
		r, _ := ring.Find(Place{uint32(i % 10), 1, OfWQE}, false)
		if r == nil {
			continue
		}
		found++
		require.Equal(t, strings.Repeat(digit, TextSize), r.Text)
		require.Equal(t, strings.Repeat(digit, CodeSize), r.Code)
		require.Equal(t, strings.Repeat(digit, WQESize), string(r.WQE))
	}
	writer.Wait()
	require.NotZero(t, found)
}

func TestKept(t *testing.T) {
	first := Keep(Kept{Reason: &goldenReason})
	k, ok := Get(first)
	require.True(t, ok)
	require.Same(t, &goldenReason, k.Reason)
	for range Most - 1 {
		Keep(Kept{})
	}
	_, ok = Get(first)
	require.True(t, ok)
	Keep(Kept{})
	_, ok = Get(first)
	require.False(t, ok)
	_, ok = Get(0)
	require.False(t, ok)
	kept.last = ^uint32(0)
	require.Equal(t, uint32(1), Keep(Kept{}), "the number after the last is not 0")
}
