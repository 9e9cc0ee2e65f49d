package devx

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nicless/nicless/field"
)

// Describe returns the fields of a mailbox, in the order of the bytes; those of a context are together,
// under its name. answerOf is 0 if the mailbox is a command, and otherwise the number of the command
// that it answers.
//
// Printed, the tree shows each byte once. Fields that share a byte stand below the first of them, with
// their bits. Reserved bytes have no name; Describe says so if they are not 0.
//
// If the command is unknown, or the mailbox is shorter than the command needs, Describe returns an error
// and what it could read. If the mailbox is shorter than a head, there is no tree.
func Describe(mailbox []byte, answerOf uint16) (field.Tree, error) {
	if len(mailbox) < HeadSize {
		return nil, fmt.Errorf("devx: %d bytes; a mailbox has at least %d", len(mailbox), HeadSize)
	}
	if answerOf != 0 {
		return describeAnswer(mailbox, answerOf)
	}
	op := binary.BigEndian.Uint16(mailbox)
	c := Find(op)
	if c == nil {
		return describe(mailbox, head), errUnknown(op)
	}
	end := len(mailbox)
	if op == OpCreateMkey && KeyModeHigh.Get(mailbox) == 0 && KeyMode.Get(mailbox) >= ModeKLM {
		end = min(end, contextSize)
	}
	t := describe(mailbox[:end], c.In)
	if end < len(mailbox) {
		t = append(t, entries(mailbox, end)...)
	}
	if len(mailbox) < c.InSize {
		return t, tooShort(mailbox, Name(op), c.InSize)
	}
	return t, nil
}

func describeAnswer(mailbox []byte, op uint16) (field.Tree, error) {
	c := Find(op)
	if c == nil {
		return withRefused(mailbox, describe(mailbox, status)), errUnknown(op)
	}
	t := withRefused(mailbox, describe(mailbox, c.Out))
	if len(mailbox) < c.OutSize {
		return t, tooShort(mailbox, "answer of "+Name(op), c.OutSize)
	}
	return t, nil
}

// withRefused adds to the syndrome of an answer what it means if nicless has refused the command.
func withRefused(mailbox []byte, t field.Tree) field.Tree {
	words, ok := Refused(uint32(Syndrome.Get(mailbox)))
	if !ok || !AnswerStatus.On(mailbox) {
		return t
	}
	for i := range t {
		if t[i].Name == Syndrome.Name {
			t[i].Text += ", which for nicless is " + words
		}
	}
	return t
}

func errUnknown(op uint16) error { return fmt.Errorf("devx: the fields of %s are not known", Name(op)) }

func tooShort(mailbox []byte, what string, least int) error {
	return fmt.Errorf("devx: %s of %d bytes; at least %d are needed", what, len(mailbox), least)
}

// entries returns the list of a key, from an offset of the mailbox.
func entries(mailbox []byte, at int) (t field.Tree) {
	const size = 16
	var list []field.Field
	for ; len(mailbox)-at >= size; at += size {
		e := mailbox[at : at+size]
		list = append(list, field.Field{Offset: at, Len: size, Name: "entry", Sub: field.Tree{
			{Offset: at, Len: 4, Name: "byte_count", Value: binary.BigEndian.Uint32(e)},
			{Offset: at + 4, Len: 4, Name: "mkey", Value: field.Hex32(binary.BigEndian.Uint32(e[4:]))},
			{Offset: at + 8, Len: 8, Name: "address", Value: field.Hex64(binary.BigEndian.Uint64(e[8:]))},
		}})
	}
	if len(list) != 0 {
		t = append(t, field.Field{Name: "entries", List: list})
	}
	if at < len(mailbox) {
		t = append(t, field.Field{Offset: at, Len: len(mailbox) - at, Text: "too short for an entry"})
	}
	return t
}

// A place is a field of a group, and which bytes of the mailbox have bits of it.
type place struct {
	*Field
	group      *Group
	first, end int
}

// places returns the fields of groups that the mailbox has, in the order of the bytes.
func places(mailbox []byte, groups []*Group) (list []place) {
	for _, g := range groups {
		for _, f := range g.Fields {
			p := place{f, g, f.At, f.End()}
			if p.end > len(mailbox) {
				continue
			}
			if f.Bytes == 0 && f.High < 32 {
				p.first, p.end = f.At+(31-f.High)/8, f.At+(31-f.Low)/8+1
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b place) int {
		if a.At != b.At {
			return a.At - b.At
		}
		return b.High - a.High
	})
	return list
}

// describe returns the fields of groups in a mailbox.
func describe(mailbox []byte, groups []*Group) (t field.Tree) {
	d := describer{mailbox: mailbox, unknown: unknown(mailbox, groups), tree: &t}
	var context *Group
	var sub field.Tree
	leave := func() {
		if context != nil {
			t = append(t, field.Field{Offset: context.At, Name: context.Name, Sub: sub})
			context, sub, d.tree = nil, nil, &t
		}
	}
	for _, p := range places(mailbox, groups) {
		if p.group != context {
			d.bits(d.next)
			leave()
			if p.group.Context {
				d.reserved(p.group.At)
				context, d.tree = p.group, &sub
			}
		}
		d.reserved(p.first)
		d.field(p)
	}
	d.bits(d.next)
	leave()
	d.reserved(len(mailbox))
	return t
}

// A describer adds fields to a tree. Bytes before next have been added.
type describer struct {
	mailbox []byte
	unknown []byte // the mailbox without the bits of fields
	tree    *field.Tree
	next    int
	checked int // reserved bits of bytes before checked have been reported
}

func (d *describer) add(f field.Field) { *d.tree = append(*d.tree, f) }

// reserved adds the bytes up to end that have not been added, and which no field has.
func (d *describer) reserved(end int) {
	if d.next < end {
		d.bits(d.next)
		text := "reserved"
		if on(d.mailbox[d.next:end]) {
			text = "reserved, but not 0"
		}
		d.add(field.Field{Offset: d.next, Len: end - d.next, Text: text})
		d.next, d.checked = end, end
	}
	d.bits(end)
}

// bits says which bits before end are not 0, although no field has them.
func (d *describer) bits(end int) {
	for ; d.checked < end; d.checked++ {
		if u := d.unknown[d.checked]; u != 0 {
			d.add(field.Field{Text: fmt.Sprintf("reserved bits %#02x of byte %#x, but not 0", u, d.checked)})
		}
	}
}

// field adds a field. Its bytes stand beside it, without those of the field before.
func (d *describer) field(p place) {
	f := field.Field{Offset: max(p.first, d.next), Name: p.Name, Text: p.text(d.mailbox)}
	f.Len = max(0, p.end-f.Offset)
	d.next = max(d.next, p.end)
	switch {
	case p.Bytes != 0:
		f.Value, f.Text = field.Bytes(p.Raw(d.mailbox)), p.Text
	case p.High == 63:
		f.Value = field.Hex64(p.Get(d.mailbox))
	default:
		f.Value = p.Get(d.mailbox)
	}
	d.add(f)
}

// text explains the field's value in a mailbox: its bits, if it shares bytes with others, and what it means,
// if it is not 0 or if 0 has a meaning.
func (p place) text(mailbox []byte) string {
	v := p.Get(mailbox)
	text := p.Meaning(v)
	switch {
	case text != "" || v == 0:
	case v > 9 && p.High-p.Low >= 15 && p.High < 63:
		text = fmt.Sprintf("%#x: %s", v, p.Text)
	default:
		text = p.Text
	}
	if p.High == 63 || p.Low%8 == 0 && p.High%8 == 7 {
		return text
	}
	bits := fmt.Sprintf("bits %d..%d", p.High, p.Low)
	if p.High == p.Low {
		bits = fmt.Sprintf("bit %d", p.High)
	}
	if text == "" {
		return bits
	}
	return bits + ": " + text
}

func on(b []byte) bool { return slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }
