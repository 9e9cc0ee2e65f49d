//go:build linux && (amd64 || arm64)

package bulletin

import (
	"slices"

	"github.com/nicless/nicless/internal/board"
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
	before := b.linked
	b.linked = merge(b.sources)
	return b.note(difference(before, b.linked))
}

// merge returns the announcements of all sources, sorted. If several links lead to a device, the
// first that has said something of it counts.
func merge(sources []source) (all []posted) {
	seen := make(map[uint64]bool)
	for _, s := range sources {
		if seen[s.guid] {
			continue
		}
		seen[s.guid] = true
		for _, e := range s.list {
			p := posted{to: e.User}
			p.Device, p.Client, p.Value = s.guid, e.Client, e.Value
			all = append(all, p)
		}
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
