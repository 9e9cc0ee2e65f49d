//go:build linux && (amd64 || arm64)

package quota

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A user that has a range in /etc/subuid, as for containers, can act as each of the range's
// 65536 uids in a user namespace, and would then count as 65536 users. So the owner of the
// range pays for these uids.
//
// Names of owners are looked up only in /etc/passwd, because a directory service could take
// long, and a connection waits for the result. If a name is not in /etc/passwd, all its
// ranges count as one user, whose uid is the first uid of the first range. A daemon that
// lends ranges for a time (systemd-nsresourced) does not write /etc/subuid. A uid from such a
// range counts as a user of its own.

const (
	subuidPath = "/etc/subuid"
	passwdPath = "/etc/passwd"
)

// owners finds the owners of uids. Safe for concurrent use.
type owners struct {
	subuid, passwd string // paths

	mu     sync.Mutex
	read   os.FileInfo // size, time and identity of the subuid file when last read; nil: no file
	ranges []uidRange
}

// A uidRange is a range of count uids that begins at the uid first. The range belongs to owner.
type uidRange struct{ first, count, owner uint32 }

func systemOwners() *owners { return &owners{subuid: subuidPath, passwd: passwdPath} }

// of returns the owner of the range that contains a uid, or the uid itself if no range
// contains it.
func (o *owners) of(uid uint32) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refresh()
	for _, r := range o.ranges {
		if uid-r.first < r.count { // if uid is less than first, the difference wraps and is too large
			return r.owner
		}
	}
	return uid
}

// refresh reads the subuid file if it has changed.
func (o *owners) refresh() {
	now, err := os.Stat(o.subuid)
	switch {
	case err != nil || !now.Mode().IsRegular():
		o.read, o.ranges = nil, nil
		return
	case o.read != nil && os.SameFile(now, o.read) && now.Size() == o.read.Size() &&
		now.ModTime().Equal(o.read.ModTime()):
		return
	}
	text, err := os.ReadFile(o.subuid)
	if err != nil {
		text = nil
	}
	names, _ := os.ReadFile(o.passwd)
	o.read, o.ranges = now, parseRanges(text, uidsOf(names))
}

// parseRanges parses lines such as alice:100000:65536. A line may have a uid instead of the
// name. parseRanges skips all other lines.
func parseRanges(text []byte, uids map[string]uint32) (ranges []uidRange) {
	unknown := make(map[string]uint32) // owners whose names are not in /etc/passwd
	for line := range bytes.Lines(text) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 != nil || err2 != nil || f[0] == "" {
			continue
		}
		owner, ok := uids[f[0]]
		if n, err := strconv.ParseUint(f[0], 10, 32); !ok && err == nil {
			owner, ok = uint32(n), true
		}
		if !ok {
			if owner, ok = unknown[f[0]]; !ok {
				owner = uint32(first)
				unknown[f[0]] = owner
			}
		}
		ranges = append(ranges, uidRange{uint32(first), uint32(min(count, 1<<32-first)), owner})
	}
	return ranges
}

// uidsOf returns the uids of the names in lines such as alice:x:1000:1000::/home/alice:/bin/sh.
func uidsOf(passwd []byte) map[string]uint32 {
	uids := make(map[string]uint32)
	for line := range bytes.Lines(passwd) {
		if f := strings.SplitN(string(line), ":", 4); len(f) == 4 {
			if uid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				uids[f[0]] = uint32(uid)
			}
		}
	}
	return uids
}
