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
// blank. DAX devices and memory of PCI devices are not checked: what they have when nobody has written to
// them is random.
func mayBePool(first []byte) error {
	if zeros(first) || len(first) >= headerSize && beginsPool((*[headerSize]byte)(first)) {
		return nil
	}
	shown := first[:min(len(first), 16)]
	return fmt.Errorf("%w: it begins with %q. Name another file, or remove this one", errForeign, shown)
}

// beginsPool reports whether a header is that of a pool. While it is written (format), its first word is 0,
// and its second has been written already. Arrays of numbers may begin with 0, too.
func beginsPool(b *[headerSize]byte) bool {
	word, is, nodes := be.Uint64(b[0:]), be.Uint16(b[8:]), int(be.Uint16(b[10:]))
	begun := (is == version || is == versionSums) && nodes >= MinNodes && nodes <= MaxNodes
	return word == magic || word == 0 && begun
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
