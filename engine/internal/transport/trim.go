//go:build linux && (amd64 || arm64)

package transport

import (
	"os"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// Trim implements nic.Port.
func (h *PortHandle) Trim() {
	sh, store := h.Port.Shard, &h.Port.Paths.Store
	var unused []byte
	sh.DoWith(mailbox.NoWork, func() { unused = store.Rest(sh.Now()) })
	if unused == nil {
		return
	}
	giveBack(unused)
	sh.DoWith(mailbox.NoWork, store.Rested)
}

// giveBack gives the whole pages of b to the system. They are zero afterwards. An error is no matter: the
// memory stays.
func giveBack(b []byte) {
	page := os.Getpagesize()
	before := -int(procmem.VecOf(b).Addr) & (page - 1)
	if n := len(b) - before; n >= page {
		_ = unix.Madvise(b[before:][:n&-page], unix.MADV_DONTNEED)
	}
}
