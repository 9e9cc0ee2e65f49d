package engine

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A user who has a range in /etc/subuid, as for containers, can take on each of its
// 65536 uids in a user namespace, and would count as so many users. So what such a uid
// takes is on the bill of the range's owner.
//
// Names of owners are looked up in /etc/passwd alone: a directory service could
// take its time, and a connection waits for the answer. The ranges of a name that is
// not there count as one user, that of the first uid of the first of them. A daemon
// that lends ranges for a time (systemd-nsresourced) writes no such file; a uid
// from there counts as a user of its own.

const (
	subuidPath = "/etc/subuid"
	passwdPath = "/etc/passwd"
)

// owners says to whom uids belong. Safe for concurrent use.
type owners struct {
	subuid, passwd string

	mu     *sync.Mutex
	read   os.FileInfo // what subuid was when it was read; nil: it was not there
	ranges []uidRange
}

// A uidRange is count uids from first on, which belong to owner.
type uidRange struct{ first, count, owner uint32 }

func systemOwners() owners {
	return owners{subuid: subuidPath, passwd: passwdPath, mu: new(sync.Mutex)}
}

// of returns the owner of the range that a uid lies in, and the uid itself if it
// lies in none.
func (o *owners) of(uid uint32) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refresh()
	for _, r := range o.ranges {
		if uid-r.first < r.count { // also false below first: it wraps
			return r.owner
		}
	}
	return uid
}

// refresh reads the file if it has changed.
func (o *owners) refresh() {
	now, err := os.Stat(o.subuid)
	switch {
	case err != nil || !now.Mode().IsRegular():
		o.read, o.ranges = nil, nil
		return
	case o.read != nil && os.SameFile(now, o.read) && now.Size() == o.read.Size() && now.ModTime().Equal(o.read.ModTime()):
		return
	}
	text, err := os.ReadFile(o.subuid)
	if err != nil {
		text = nil
	}
	names, _ := os.ReadFile(o.passwd)
	o.read, o.ranges = now, parseRanges(text, uidsOf(names))
}

// parseRanges parses lines such as alice:100000:65536, or with a number in place
// of the name. What is not such a line is passed over.
func parseRanges(text []byte, uids map[string]uint32) (ranges []uidRange) {
	unknown := make(map[string]uint32)
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

// uidsOf parses lines such as alice:x:1000:1000::/home/alice:/bin/sh.
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
