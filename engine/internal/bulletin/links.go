//go:build linux && (amd64 || arm64)

package bulletin

import (
	"slices"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// A source is what one link says of one device.
type source struct {
	link any
	guid uint64
	list []board.Entry
}

// Set replaces what a link says of a device, and returns the clients that are to be notified of it.
func (b *Bulletin[C]) Set(link any, guid uint64, list []board.Entry) (notify []C) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.sources, func(s source) bool { return s.link == link && s.guid == guid })
	switch {
	case i < 0 && len(list) == 0:
		return nil
	case i < 0:
		b.sources = append(b.sources, source{link, guid, list})
	case len(list) == 0:
		b.sources = slices.Delete(b.sources, i, i+1)
	default:
		b.sources[i].list = list
	}
	// The list has no more to be changed than what is said of this device: a rack has some 60,000 entries.
	from, _ := slices.BinarySearchFunc(b.linked, control.AnnouncementPlace{Device: guid}, posted.compare)
	to := from
	for to < len(b.linked) && b.linked[to].Device == guid {
		to++
	}
	before, after := slices.Clone(b.linked[from:to]), b.postedOf(guid)
	b.linked = slices.Replace(b.linked, from, to, after...)
	return b.note(difference(before, after))
}

// postedOf returns the announcements of a device, sorted. If several links lead to the device, the first that
// has said something of it counts.
func (b *Bulletin[C]) postedOf(guid uint64) (all []posted) {
	i := slices.IndexFunc(b.sources, func(s source) bool { return s.guid == guid })
	if i < 0 {
		return nil
	}
	for _, e := range b.sources[i].list {
		p := posted{to: e.User}
		p.Device, p.Client, p.Value = guid, e.Client, e.Value
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y posted) int { return x.compare(y.AnnouncementPlace) })
	return all
}

// difference returns what is in one of two sorted lists only.
func difference(a, b []posted) (only []posted) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].compare(b[0].AnnouncementPlace) < 0:
			only, a = append(only, a[0]), a[1:]
		case len(a) == 0 || a[0].compare(b[0].AnnouncementPlace) > 0:
			only, b = append(only, b[0]), b[1:]
		default:
			if a[0] != b[0] {
				only = append(only, a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return only
}
