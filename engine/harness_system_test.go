package engine

import (
	"bytes"
	"io/fs"
	"sync"

	"github.com/nicless/nicless/engine/internal/object"
)

// systemFiles reads each file once: a new engine would read about 20 of them, which takes longer than
// most tests of single operations.
type systemFiles struct {
	fs.FS
	read sync.Map // has for each name a function that returns what was read
}

func init() { object.SystemRoot = &systemFiles{FS: object.SystemRoot} }

// ReadFile implements fs.ReadFileFS.
func (s *systemFiles) ReadFile(name string) ([]byte, error) {
	f, _ := s.read.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) { return fs.ReadFile(s.FS, name) }))
	text, err := f.(func() ([]byte, error))()
	return bytes.Clone(text), err
}
