package engine

import (
	"flag"
	"fmt"
	"strings"

	cost "github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/wqe"
)

var everyTouch = flag.Bool("touches", false, "TestTouches: all operations in all forms with more lengths (a minute or two)")

// A touchRow is traffic whose last doorbell is watched, after so many others.
type touchRow struct {
	name  string
	op    string
	bytes int
	form  traffic.Form
	warm  int

	wqe func(s *stage) []byte // replaces the WQE of each request; nil: it stays
}

// touchForms are the forms in which every operation is posted that can be.
var touchForms = []struct {
	name string
	form traffic.Form
}{
	{"plain", traffic.Form{}},
	{"unsignaled", traffic.Form{Signaled: 1000}},
	{"inline", traffic.Form{Inline: true}},
	{"2 pieces", traffic.Form{SGEs: 2}},
	{"3 pieces", traffic.Form{SGEs: 3}},
	{"7 pieces", traffic.Form{SGEs: 7}},
	{"BlueFlame", traffic.Form{BlueFlame: true}},
	{"BlueFlame, inline", traffic.Form{BlueFlame: true, Inline: true}},
	{"BlueFlame, rested", traffic.Form{BlueFlame: true, Rested: true}},
	{"CQs with channels", traffic.Form{Events: true}},
	{"BlueFlame, 3 pieces", traffic.Form{BlueFlame: true, SGEs: 3}},
	{"BlueFlame, 2 for a doorbell", traffic.Form{BlueFlame: true, Batch: 2}},
	{"3 for a doorbell", traffic.Form{Batch: 3}},
	{"3 for a doorbell, inline", traffic.Form{Batch: 3, Inline: true}},
	{"3 for a doorbell, one signaled", traffic.Form{Batch: 3, Signaled: 3}},
	{"4 for a doorbell, every second signaled", traffic.Form{Batch: 4, Signaled: 2}},
	{"20 for a doorbell", traffic.Form{Batch: 20, Ring: 64}},
	{"40 for a doorbell", traffic.Form{Batch: 40, Ring: 128, Signaled: 3}},
	{"CQEs of 128 bytes", traffic.Form{EntrySize: 128}},
	{"inline CQEs", traffic.Form{InlineCQE: true}},
	{"inline CQEs of 128 bytes", traffic.Form{InlineCQE: true, EntrySize: 128}},
	{"receives of 4 pieces", traffic.Form{ReceiveSGEs: 4}},
	{"receives of 128 bytes", traffic.Form{ReceiveSGEs: 5, Stride: 128}},
	{"receives of 16 bytes", traffic.Form{Stride: 16}},
	{"SRQ", traffic.Form{SRQ: true}},
	{"SRQ, receives of 128 bytes", traffic.Form{SRQ: true, ReceiveSGEs: 4, Stride: 128}},
	{"SRQ, 3 for a doorbell", traffic.Form{SRQ: true, Batch: 3}},
}

// touchLengths are lengths of payloads: those below which the fast path takes inline data, and
// others.
var touchLengths = []int{0, 8, 28, 29, 44, 45, 64, 128, 448, 4096}

// visible reports whether all lines of a payload can be seen. Copies of pieces that are no whole lines
// have accesses that begin in one line and end in the next.
func visible(bytes int, f *traffic.Form) bool {
	pieces := max(f.SGEs, f.ReceiveSGEs, 1)
	wholeLines := bytes%cost.LineSize == 0 && bytes >= pieces*cost.LineSize
	return pieces == 1 || bytes <= cost.LineSize || wholeLines
}

// touchRows returns the rows of TestTouches. The first doorbells differ from later ones, and so does
// the first one after a lap round the queues, which have 16 entries.
func touchRows(all bool) (rows []touchRow) {
	add := func(op string, bytes int, form traffic.Form, name string, warm int) {
		f := form
		f.Requests = max(f.Batch, 1)
		if f.Ring == 0 {
			f.Ring = 16
		}
		if _, err := traffic.Synth(op, bytes, f); err != nil {
			return // the operation has no such form
		}
		name = fmt.Sprintf("%s of %d bytes, %s, the doorbell after %d", op, bytes, name, warm)
		rows = append(rows, touchRow{name: name, op: op, bytes: bytes, form: form, warm: warm})
	}
	both := func(op string, bytes int, form traffic.Form, name string, warm int) {
		add(op, bytes, form, name, warm)
		form.SlowPath = true
		add(op, bytes, form, name+", slow path", warm)
	}
	for _, op := range traffic.Ops() {
		if all {
			for _, n := range touchLengths {
				for _, f := range touchForms {
					if !visible(n, &f.form) || n*f.form.Batch > 16<<10 {
						continue
					}
					both(op, n, f.form, f.name, 2)
				}
			}
		}
		n := 64
		if strings.Contains(op, "add") || strings.Contains(op, "swap") {
			n = 8
		}
		forms := touchForms
		if !all && op != "send" { // a send has all parts that the others have
			forms = forms[:1]
		}
		for _, f := range forms {
			add(op, n, f.form, f.name, 2)
		}
		both(op, 8, traffic.Form{}, "plain", 15)
		both(op, 8, traffic.Form{}, "plain", 16)
		add(op, 8, traffic.Form{SGEs: 3, SRQ: true}, "3 pieces, SRQ", 16)
		both(op, 8, traffic.Form{Batch: 3}, "3 for a doorbell", 5)
		both(op, 64, traffic.Form{}, "plain", 17)
	}
	for _, warm := range []int{30, 31, 32} { // arm words are read in every 32nd round
		add("send", 64, traffic.Form{Events: true}, "CQs with channels", warm)
	}
	ops := []string{"write", "read", "send"}
	if !all {
		ops = ops[:1]
	}
	for _, n := range []int{28, 29, 44, 45, 300, 4096, 5056} {
		for _, op := range ops {
			add(op, n, traffic.Form{}, "plain", 2)
			add(op, n, traffic.Form{Inline: true}, "inline", 2)
			add(op, n, traffic.Form{Inline: true, BlueFlame: true}, "inline, BlueFlame", 2)
		}
	}
	return append(rows, otherTouches()...)
}

// otherTouches returns rows of requests that package traffic expands but does not make.
func otherTouches() (rows []touchRow) {
	for _, o := range []struct {
		name string
		op   string // of the source whose queues and receives are used
		wqe  func(s *stage) []byte
	}{
		{"SEND with invalidate", "send", func(s *stage) []byte {
			key := s.b.mkey(1)
			k := s.e.Keys.Find(key)
			k.Free, k.Inval = false, true // as after a UMR that allows it
			return s.cut(wqe.Ctrl{Opcode: wqe.OpSendInval, Flags: wqe.CEAlways, Imm: key}, wqe.Data{ByteCount: 64, LKey: s.source.Near.Key, Addr: s.source.Near.Addr})
		}},
		{"UMR", "nop", func(s *stage) []byte {
			key := s.a.mkey(4)
			return s.cut(umr(key), fill(key, mkeyWrite, 16, wqe.KLM{ByteCount: 16, MKey: s.source.Near.Key, Addr: s.source.Near.Addr})...)
		}},
		{"WAIT", "nop", func(s *stage) []byte {
			return s.cut(ctrl(wqe.OpWait), wqe.Wait{Number: s.p.scq.num, Index: 1<<32 - 1})
		}},
		{"SEND_EN", "nop", func(s *stage) []byte {
			return s.cut(ctrl(wqe.OpSendEn), wqe.Wait{Number: s.p.num})
		}},
	} {
		for _, form := range []traffic.Form{{}, {SlowPath: true}, {BlueFlame: true}, {EntrySize: 128}} {
			name := fmt.Sprintf("%s, slow path %t, BlueFlame %t, CQEs of %d bytes", o.name, form.SlowPath, form.BlueFlame, form.EntrySize)
			bytes := 0
			if o.op == "send" {
				bytes = 64
			}
			rows = append(rows, touchRow{name: name, op: o.op, bytes: bytes, form: form, warm: 1, wqe: o.wqe})
		}
	}
	return rows
}
