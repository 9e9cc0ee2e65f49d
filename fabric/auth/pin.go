//go:build linux && (amd64 || arm64)

package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pin adds a key that is seen first from an address to the file. Engines that share the file take turns, and
// read it first: another may have pinned another key meanwhile.
//
// The handshakes of all peers wait for pin, so pin does not wait for the disk: flush does. Only a crash of
// the machine in the moment after pin loses the line; then the next key from the address is again one that is
// seen first.
func (p *Peers) pin(a netip.Addr, key PublicKey) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("auth: pin the key of %v: %w", a, err)
	}
	defer f.Close() // which ends the lock
	return p.appendTo(f, a, key)
}

// flush waits until the disk has the lines that were added. One goroutine at most does so, however many keys
// are pinned, and however long the disk takes.
func (p *Peers) flush() {
	for {
		p.mu.Lock()
		p.flushing = p.unflushed
		p.unflushed = false
		done := !p.flushing
		p.mu.Unlock()
		if done {
			return
		}
		f, err := os.OpenFile(p.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			p.log.Warn("the disk may not have the keys that were pinned last", "file", p.path, "error", err.Error())
		}
	}
}

// appendTo locks the file, and adds the key to it unless a line covers the address now. p.mu is held.
func (p *Peers) appendTo(f *os.File, a netip.Addr, key PublicKey) error {
	if err := guarded(f, 0o022); err != nil {
		return fmt.Errorf("auth: file of peers %s: %w", p.path, err)
	}
	if err := lock(f); err != nil {
		return fmt.Errorf("auth: pin the key of %v: lock %s: %w", a, p.path, err)
	}
	if err := p.read(stampOf(p.path)); err != nil {
		return err
	}
	now := p.now.Load()
	err := now.check(a, key, p.path)
	switch {
	case err == nil || !errors.Is(err, errUncovered):
		return err
	case now.lines == mostLines:
		return fmt.Errorf("auth: %s has %d keys, which are all that are possible; the key of %v is not added", p.path, mostLines, a)
	}
	row := fmt.Sprintf("%v %v # seen first at %s\n", a, key, time.Now().UTC().Format(time.RFC3339))
	if partial, err := endsWithin(f); err != nil {
		return fmt.Errorf("auth: pin the key of %v: %w", a, err)
	} else if partial {
		row = "\n" + row
	}
	if _, err := f.WriteString(row); err != nil { // one write: a reader sees all of it or nothing
		return fmt.Errorf("auth: pin the key of %v: %w", a, err)
	}
	p.unflushed = true
	if !p.flushing {
		p.flushing = true
		go p.flush()
	}
	p.log.Warn("a key was seen for the first time and is trusted from now on (trust=first); compare its fingerprint with \"nicless key show\" at the peer",
		"address", a.String(), "fingerprint", key.Fingerprint(), "file", p.path)
	return p.read(stampOf(p.path))
}

// lock waits a second at most for the lock of a file.
func lock(f *os.File) (err error) {
	for until := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
			return err
		}
	}
}

// endsWithin reports whether the last line of a file has no end.
func endsWithin(f *os.File) (bool, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], st.Size()-1)
	return last[0] != '\n', err
}

func inodeOf(st fs.FileInfo) int64 { return int64(st.Sys().(*syscall.Stat_t).Ino) }
