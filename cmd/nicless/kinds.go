package main

import (
	"bytes"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// A kind is something that decode can explain.
type kind struct {
	name     string
	describe func(b []byte, a about) (field.Tree, error)
}

// about is what the bytes do not say about themselves.
type about struct {
	address  wqe.Address // of a send WQE
	answerOf uint16      // number of the firmware command that devx-out answers
}

// kinds has all kinds, in the order of the usage text. The package of each format checks
// whether the number of bytes is possible for the kind.
var kinds = []kind{
	{"send", describeSend},
	{"recv", func(b []byte, _ about) (field.Tree, error) { return describeRecv(b, false) }},
	{"srq", func(b []byte, _ about) (field.Tree, error) { return describeRecv(b, true) }},
	{"cqe", func(b []byte, _ about) (field.Tree, error) { return describeCQE(b, cqe.Size) }},
	{"cqe128", func(b []byte, _ about) (field.Tree, error) { return describeCQE(b, cqe.Size128) }},
	{"qp-dbrec", word(doorbell.QPRecord)},
	{"srq-dbrec", word(doorbell.SRQWord)}, // the record of an SRQ is one word
	{"cq-dbrec", describeCQRecord},
	{"cq-arm", word(doorbell.CQArm)},
	{"uar", word(doorbell.UARRing)},
	{"bf", word(doorbell.BlueFlame)},
	{"packet", func(b []byte, _ about) (field.Tree, error) { return describePacket(b) }},
	{"devx-in", describeCommand},
	{kindAnswer, describeCommand},

	{"qp-dbrec[0]", word(doorbell.QPRecvWord)},
	{"qp-dbrec[1]", word(doorbell.QPSendWord)},
	{"srq-dbrec[0]", word(doorbell.SRQWord)},
	{"cq-dbrec[0]", word(doorbell.CQCIWord)},
	{"cq-dbrec[1]", word(doorbell.CQArmWord)},
}

// kindsWithoutIndex is how many kinds come before those for single words.
const kindsWithoutIndex = 14

func kindNames() (names []string) {
	for _, k := range kinds[:kindsWithoutIndex] {
		names = append(names, k.name)
	}
	return names
}

func kindHint() string { return "one of " + strings.Join(kindNames(), ", ") }

// findKind returns the kind with this name. It accepts underscores in place of hyphens,
// because the golden vectors have underscores.
func findKind(name string) (kind, error) {
	for _, k := range kinds {
		if k.name == strings.ReplaceAll(name, "_", "-") {
			return k, nil
		}
	}
	return kind{}, usagef(kindHint(), "decode: kind %q does not exist", name)
}

// isKind returns the kind that the first argument names, if it names one.
func isKind(args []string) (kind, bool) {
	if len(args) == 0 {
		return kind{}, false
	}
	k, err := findKind(args[0])
	return k, err == nil
}

// qpTypes has, for each type of queue, the address that its send WQEs have.
var qpTypes = []struct {
	name    string
	address wqe.Address
}{
	{"auto", wqe.AddressGuess},
	{"rc", wqe.NoAddress},
	{"uc", wqe.NoAddress},
	{"ud", wqe.AddressUD},
	{"dc", wqe.AddressDC},
	{"xrc", wqe.AddressXRC},
	{"eth", wqe.AddressEth},
	{"ud-eth", wqe.AddressUDEth},
}

func qpTypeNames() (names []string) {
	for _, t := range qpTypes {
		names = append(names, t.name)
	}
	return names
}

func findQPType(name string) (wqe.Address, error) {
	for _, t := range qpTypes {
		if t.name == name {
			return t.address, nil
		}
	}
	return 0, usagef("one of "+strings.Join(qpTypeNames(), ", "), "decode: --qp-type %q does not exist", name)
}

const wholeHint = "pass all bytes of one object; \"nicless decode --help\" lists the lengths"

func describeSend(b []byte, a about) (field.Tree, error) {
	const most = wqe.MaxBlocks * wqe.BlockSize
	if n := len(b); n < wqe.CtrlSize || n > most {
		return nil, hintf(wholeHint, "send: %d bytes; a control segment is %d, the longest WQE %d", n, wqe.CtrlSize, most)
	}
	if units := int(b[7] & 0x3f); units*wqe.UnitSize > len(b) {
		return nil, hintf("pass the whole WQE, from its control segment on", "send: %d bytes; the control segment says that the WQE has %d (ds %d)",
			len(b), units*wqe.UnitSize, units)
	}
	t, err := wqe.DescribeSend(b, a.address)
	switch {
	case err == nil:
		return t, nil
	case len(bytes.Trim(b, "\x00")) == 0:
		return t, &hinted{err: err, hint: "all bytes are 0: probably nothing was ever written here"}
	case b[7]&0x3f == 0:
		return t, &hinted{err: err, hint: "ds is the length of the WQE in units of 16 bytes, including the control segment"}
	}
	return t, &hinted{err: err, hint: "--qp-type says which address segment the WQE has; bytes are in memory order"}
}

func describeRecv(b []byte, srq bool) (field.Tree, error) {
	least := wqe.DataSize
	if srq {
		least = 2 * wqe.DataSize
	}
	if n := len(b); n < least || n&(n-1) != 0 {
		return nil, hintf("pass a whole entry: as many bytes as the queue's stride",
			"%s: %d bytes; the stride of an entry is a power of two from %d", map[bool]string{false: "recv", true: "srq"}[srq], n, least)
	}
	return wqe.DescribeRecv(b, srq)
}

func describeCQE(b []byte, size int) (field.Tree, error) {
	switch {
	case len(b) == size:
		return cqe.Describe(b)
	case len(b) == cqe.Size:
		return nil, hintf("for an entry of 64 bytes: nicless decode cqe", "cqe128: 64 bytes; an entry is 128")
	case len(b) == cqe.Size128:
		return nil, hintf("for an entry of 128 bytes: nicless decode cqe128", "cqe: 128 bytes; an entry is 64")
	}
	return nil, hintf(wholeHint, "cqe: %d bytes; an entry is %d", len(b), size)
}

// word returns the function that describes a doorbell record, one word of it, or a register.
func word(k doorbell.Kind) func([]byte, about) (field.Tree, error) {
	return func(b []byte, _ about) (field.Tree, error) {
		t, err := doorbell.Describe(k, b)
		if err != nil {
			// replaces the names of package doorbell by those of the command line
			ours := strings.NewReplacer("uar_db", "uar", "_", "-")
			return nil, hintf(wholeHint, "%s", ours.Replace(err.Error()))
		}
		return t, nil
	}
}

// describeCQRecord describes the record of a CQ, or its first word alone.
func describeCQRecord(b []byte, a about) (field.Tree, error) {
	switch len(b) {
	case 4:
		return word(doorbell.CQCIWord)(b, a)
	case 8:
		return word(doorbell.CQRecord)(b, a)
	}
	return nil, hintf(wholeHint, "cq-dbrec: %d bytes; the record is 8, its first word 4", len(b))
}

// describePacket describes an IP packet, or a packet of the InfiniBand transport from its BTH
// on.
func describePacket(b []byte) (t field.Tree, err error) {
	if packet.IsIP(b) {
		t, err = packet.DescribeIP(b)
	} else {
		t, err = packet.Describe(b)
	}
	if err != nil {
		return t, &hinted{err: err, hint: "pass the whole packet from the BTH to the ICRC, or from the IP header on; \"tcpdump -x\" prints the latter, with offsets to be left out"}
	}
	return t, nil
}
