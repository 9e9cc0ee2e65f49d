package pack

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
)

// compressAll writes each file of a folder into the folder to, with .gz after its name. The bytes depend on
// the files alone: gzip's header has neither a name nor a time.
func compressAll(from, to string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range list {
		text, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, file.Name()+".gz"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
