package pool

import (
	"bytes"
	"errors"
	"fmt"
)

// readBytes is how many bytes of an ordinary file are read before it becomes a pool: images of disks and
// file systems, which may begin with zeros, have something else than zeros there. Btrfs, UFS2, ReiserFS and
// GFS2 have their first superblock 64 KiB behind the beginning, the others before that.
const readBytes = 128 << 10

var errForeign = errors.New("the file has other data, and a pool would overwrite it")

// mayBePool returns an error if a file that begins with these bytes is something else than a pool, and not
// blank. Its first word is that of a pool, or 0 while the header is written. DAX devices and memory of PCI
// devices are not checked: what they have when nobody has written to them is random.
func mayBePool(first []byte) error {
	word := first[:min(len(first), 8)]
	switch {
	case len(word) == 8 && be.Uint64(word) == magic:
		return nil
	case zeros(word) && (zeros(first) || !zeros(first[:min(len(first), headerSize)])):
		return nil
	}
	return fmt.Errorf("%w: it begins with %q. Name another file, or remove this one", errForeign, first[:min(len(first), 16)])
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
