package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/paste"
	"github.com/nicless/nicless/internal/paragraph"
	"github.com/nicless/nicless/wqe"
)

// width is the most columns of text.
const width = 80

// fold prints a text after a head, in lines that fit; further lines are indented like the text.
func (p *printer) fold(head, text string) { fold(p.w, head, text) }

func fold(w io.Writer, head, text string) {
	fmt.Fprintf(w, "%s%s\n", head, paragraph.Fold(text, len(head), width, strings.Repeat(" ", len(head))))
}

// isFailure reports whether an item says that work has failed.
func isFailure(it *paste.Item) bool {
	_, _, ok := it.Error()
	return ok || (it.Kind == paste.Text && it.Facts.Fails())
}

// at returns the lines of an item in words.
func at(it *paste.Item) string {
	if it.Last > it.Line {
		return fmt.Sprintf("lines %d-%d", it.Line, it.Last)
	}
	return fmt.Sprintf("line %d", it.Line)
}

var objects = map[paste.Kind]string{
	paste.Text: "error in words", paste.CQE: "CQE", paste.CQE128: "CQE of 128 bytes", paste.Send: "send WQE",
	paste.Recv: "list of a receive", paste.Packet: "packet of RoCEv2", paste.Unclear: "bytes that are not clear",
	paste.UAR: "doorbell register", paste.QPRecord: "doorbell record of a queue pair",
}

func object(it *paste.Item) string { return objects[it.Kind] }

// operation returns what an object does, such as ", RC_WRITE_ONLY", for the end of its name.
func operation(it *paste.Item) string {
	if it.Kind == paste.Send && len(it.Bytes) >= wqe.CtrlSize {
		return ", " + wqe.Opcode(it.Bytes[3]).String()
	}
	if w := entryOf(it); w != nil && w.Status == cqe.StatusSuccess {
		return ", " + w.Opcode.String()
	}
	if it.Kind == paste.Packet {
		tree, _ := it.Describe(wqe.NoAddress)
		for _, f := range tree {
			if f.Name == "opcode" {
				return ", " + f.Text
			}
		}
	}
	return ""
}

// acts returns the side and the operation of a failure: its causes depend on them.
func acts(f *known.Failure) string {
	if f.Opcode != nil {
		return f.Opcode.String()
	}
	return fmt.Sprint(f.Requester, f.Responder)
}

// where returns the queue and the WQE of a text, for the end of a sentence.
func where(it *paste.Item) string {
	f := it.Facts
	if e := entryOf(it); e != nil {
		f.QPN, f.Counter = &e.QPN, &e.Counter
	}
	s := ""
	if f.QPN != nil {
		s += fmt.Sprintf(", queue 0x%06x", *f.QPN)
	}
	if f.CQN != nil {
		s += fmt.Sprintf(", CQ 0x%x", *f.CQN)
	}
	if f.Counter != nil {
		s += fmt.Sprintf(", WQE %d", *f.Counter)
	}
	if f.Side != "" {
		s += ", " + f.Side
	}
	return s
}

func entryOf(it *paste.Item) *cqe.WC {
	if it.Kind != paste.CQE && it.Kind != paste.CQE128 {
		return nil
	}
	w := cqe.ParseWC((*[cqe.Size]byte)(it.Bytes[len(it.Bytes)-cqe.Size:]))
	return &w
}

// failureName returns, for example, "syndrome 0x13, remote access error, vendor byte 0x88".
func failureName(s cqe.Syndrome, vendor *uint8) string {
	text := fmt.Sprintf("syndrome 0x%02x, %s", uint8(s), s.Error())
	if vendor != nil {
		text += fmt.Sprintf(", vendor byte 0x%02x", *vendor)
	}
	return text
}

// failure prints what is known about the failure of an item, if it is one.
func (p *printer) failure(it *paste.Item) {
	if e, ok := known.Explain(it.Facts.Code); ok {
		explanation(p.w, &e)
	}
	f, ok := it.Failure()
	if !ok {
		return
	}
	about, _ := known.AboutSyndrome(f.Syndrome)
	syndrome(p.w, &about)
	vendorByte(p.w, f.Syndrome, f.Vendor)
	list := known.Causes(f)
	causes(p.w, &about, list)
	more(p.w, list)
}

// more names the command that prints more about the most probable cause that has a code.
func more(w io.Writer, list []known.Cause) {
	for _, c := range list {
		if c.Code != "" {
			fmt.Fprintf(w, "more: nicless explain %s\n", c.Code)
			return
		}
	}
}

// syndrome prints the meaning of a syndrome.
func syndrome(w io.Writer, about *known.Syndrome) {
	s := about.Value
	if s == 0 {
		fmt.Fprintf(w, "general error (IBV_WC_%v, status %d)\n", s.Status(), uint8(s.Status()))
		fold(w, "  ", about.Means)
		return
	}
	fold(w, fmt.Sprintf("syndrome 0x%02x: ", uint8(s)),
		fmt.Sprintf("%s (IBV_WC_%v, status %d)", s.Error(), s.Status(), uint8(s.Status())))
	fold(w, "  ", about.Means)
}

// vendorByte prints what is known about a vendor byte beside a syndrome.
func vendorByte(w io.Writer, s cqe.Syndrome, vendor *uint8) {
	if vendor == nil {
		return
	}
	v, others, ok := known.AboutVendor(s, *vendor)
	head := fmt.Sprintf("vendor byte 0x%02x: ", *vendor)
	switch {
	case ok:
		fold(w, head, v.Means)
		fold(w, "  ", fmt.Sprintf("%s: %s", v.Sure, v.Source))
	case len(others) > 0:
		var list []string
		for _, o := range others {
			list = append(list, fmt.Sprintf("0x%02x", o.Byte))
		}
		fold(w, head, "not known beside this syndrome; known are "+strings.Join(list, ", "))
	default:
		fold(w, head, "the vendor documents no meaning, and no public report names one")
	}
}

// causes prints the probable causes in order, and where to look.
func causes(w io.Writer, about *known.Syndrome, list []known.Cause) {
	if len(list) > 0 {
		fmt.Fprintln(w, "probable causes, the most probable first:")
	}
	for i, c := range list {
		end := c.Sure.String()
		if c.Code != "" {
			end = c.Code + ", " + end
		}
		fold(w, fmt.Sprintf("%3d. ", i+1), fmt.Sprintf("%s (%s)", c.Text, end))
	}
	fold(w, "next: ", about.Look)
}
