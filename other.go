//go:build !(linux && (amd64 || arm64))

package nicless

import (
	"context"
	"io/fs"
	"net"

	"github.com/nicless/nicless/internal/platform"
)

// On other systems there is no device. Functions that would make or reach one return an
// error.

func openEmbedded(Config) (device, error) { return nil, platform.Unsupported("nicless: an engine") }

func dial(string) (device, error) { return nil, platform.Unsupported("nicless: an engine") }

func serveSocket(context.Context, string, fs.FileMode, Config, func()) error {
	return platform.Unsupported("nicless: an engine")
}

func serveListener(context.Context, *net.UnixListener, string, Config, func()) error {
	return platform.Unsupported("nicless: an engine")
}

func newEventFD() (int, error) { return 0, platform.Unsupported("nicless: an event descriptor") }

func readFD(int, []byte) (int, error) { return 0, platform.Unsupported("nicless: a descriptor") }

func writeFD(int, []byte) {}

func closeFD(int) {}
