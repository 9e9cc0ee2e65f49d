package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A mapped is the file whose memory is mapped here. The zero value is memory without a file.
type mapped struct {
	path string
	info os.FileInfo // when it was mapped
}

func newMapped(path string) mapped {
	info, err := os.Stat(path)
	if err != nil {
		return mapped{}
	}
	return mapped{path, info}
}

// replaced returns what has become of the file, "" if its path still leads to it. Engines that start now find
// another pool there, and neither pool knows of the other.
func (m *mapped) replaced() string {
	if m.info == nil {
		return ""
	}
	now, err := os.Stat(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the file was removed: engines that start now begin another pool"
	case err == nil && !os.SameFile(m.info, now):
		return "another file is at its path: engines that start now are in another pool"
	}
	return ""
}

// About returns what "nicless links" says of the pool besides its peers: the number of this node, whether it
// is alone, and what has become of the file.
func (p *Pool) About() string {
	s := p.state.Load()
	about, alone := fmt.Sprintf("node %d of %d", s.number, len(s.nodes)), true
	for range s.peers {
		alone = false
		break
	}
	if alone {
		about += "; no other node has been seen"
	}
	if why := p.file.replaced(); why != "" {
		about += "; " + why
	}
	return about
}
