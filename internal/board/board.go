package board

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/control"
)

// Max is the largest size of a list in bytes.
const Max = 8000

// AllUsers is the user of an entry that clients of all users may read. It is no uid.
const AllUsers = ^uint32(0)

const (
	version   = 2
	beginSize = 8  // bytes before the first entry: the version
	headSize  = 10 // bytes of an entry before its value: client, user, length of the value
)

// ErrVersion says that a list is of another version.
var ErrVersion = errors.New("announcements of another version")

var be = binary.BigEndian

// An Entry is what one client announces.
type Entry struct {
	Client uint32
	User   uint32 // the user whose clients may read the entry: a uid, or AllUsers
	Value  string
}

// Append appends the list to dst, but at most so many bytes as most says. left is how many entries at the end
// of the list did not fit. The list is sorted by client.
func Append(dst []byte, list []Entry, most int) (b []byte, left int) {
	start := len(dst)
	for i, e := range list {
		if i == 0 {
			if beginSize > most {
				return dst, len(list)
			}
			dst = be.AppendUint64(dst, version)
		}
		if len(dst)-start+headSize+len(e.Value) > most {
			if i == 0 {
				dst = dst[:start]
			}
			return dst, len(list) - i
		}
		dst = be.AppendUint32(dst, e.Client)
		dst = be.AppendUint32(dst, e.User)
		dst = be.AppendUint16(dst, uint16(len(e.Value)))
		dst = append(dst, e.Value...)
	}
	return dst, 0
}

// Parse returns the entries of a list. It checks everything. The entries do not refer to b.
func Parse(b []byte) (list []Entry, err error) {
	if len(b) > Max {
		return nil, fmt.Errorf("announcements of %d bytes; at most %d are possible", len(b), Max)
	}
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < beginSize || be.Uint64(b) != version {
		return nil, fmt.Errorf("%w: they begin with %x, those of version %d with %016x", ErrVersion, b[:min(len(b), beginSize)], version, version)
	}
	if len(b) == beginSize {
		return nil, errors.New("announcements without an entry")
	}
	last := uint32(0)
	for at := beginSize; at < len(b); {
		if len(b)-at < headSize {
			return nil, fmt.Errorf("%d bytes at the end of the announcements; an entry has at least %d", len(b)-at, headSize)
		}
		e := Entry{Client: be.Uint32(b[at:]), User: be.Uint32(b[at+4:])}
		n := int(be.Uint16(b[at+8:]))
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
