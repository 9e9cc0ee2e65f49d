package board

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/internal/control"
)

// Max is the most bytes of a list.
const Max = 8000

const headSize = 6

var be = binary.BigEndian

// An Entry is what one client announces.
type Entry struct {
	Client uint32
	Value  string
}

// Append appends the list to dst, and returns how many entries, from the end of the list, do not
// fit into max bytes. The list is sorted by client.
func Append(dst []byte, list []Entry, most int) (b []byte, left int) {
	start := len(dst)
	for i, e := range list {
		if len(dst)-start+headSize+len(e.Value) > most {
			return dst, len(list) - i
		}
		dst = be.AppendUint32(dst, e.Client)
		dst = be.AppendUint16(dst, uint16(len(e.Value)))
		dst = append(dst, e.Value...)
	}
	return dst, 0
}

// Parse returns the entries of a list. It checks everything, and refers to nothing of b.
func Parse(b []byte) (list []Entry, err error) {
	if len(b) > Max {
		return nil, fmt.Errorf("announcements of %d bytes; at most %d are possible", len(b), Max)
	}
	last := uint32(0)
	for at := 0; at < len(b); {
		if len(b)-at < headSize {
			return nil, fmt.Errorf("%d bytes at the end of the announcements; an entry has at least %d", len(b)-at, headSize)
		}
		e := Entry{Client: be.Uint32(b[at:])}
		n := int(be.Uint16(b[at+4:]))
		at += headSize
		switch {
		case e.Client <= last:
			return nil, fmt.Errorf("announcement of client %d after that of client %d; they are sorted", e.Client, last)
		case n == 0 || n > control.MaxAnnouncement:
			return nil, fmt.Errorf("client %d announces %d bytes; 1 to %d are possible", e.Client, n, control.MaxAnnouncement)
		case n > len(b)-at:
			return nil, fmt.Errorf("client %d announces %d bytes; there are %d", e.Client, n, len(b)-at)
		}
		e.Value = string(b[at : at+n])
		at += n
		last = e.Client
		list = append(list, e)
	}
	return list, nil
}
