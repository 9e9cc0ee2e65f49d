//go:build linux && (amd64 || arm64)

package engines

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/verbs"
)

// A Config says which devices there are.
type Config struct {
	Dir     string       // of all files; absolute, on a file system from which libraries may be loaded
	Devices int          // 1 to MaxDevices
	Command string       // path of the command nicless
	Library string       // path of libnicless_verbs.so, of the command's version
	Args    []string     // more arguments of nicless engine
	User    *User        // as which engines run; nil: as this process
	Log     *slog.Logger // nil: no log

	pause time.Duration // before the second restart in a row; 0: firstPause
}

// A User is as whom engines run.
type User struct{ UID, GID uint32 }

// MaxDevices is the most devices of a pool. A node that starts so many engines has no cores left for them.
const MaxDevices = 1024

const (
	socketName  = "engine.sock"
	libraryName = "libnicless_verbs.so"
	maxPath     = 107 // bytes of a unix socket's path
)

// SocketDirectory is the directory that the library is to find its server in, below a claim's directory.
const SocketDirectory = socketName + nicless.VerbsSuffix

// LibraryName is the name of the library below Pool.Libraries.
const LibraryName = libraryName

func (c *Config) check() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("directory %q is not an absolute path", c.Dir)
	case strings.ContainsAny(c.Dir, ": "):
		return fmt.Errorf("directory %q: LD_PRELOAD takes no path with a colon or a space", c.Dir)
	case c.Devices < 1 || c.Devices > MaxDevices:
		return fmt.Errorf("%d devices: 1 to %d are possible", c.Devices, MaxDevices)
	}
	longest := filepath.Join(c.Dir, "devices", strconv.Itoa(c.Devices-1), SocketDirectory, verbs.SocketName)
	if len(longest) > maxPath {
		return fmt.Errorf("directory %q: the path of a socket would have %d bytes; %d are possible",
			c.Dir, len(longest), maxPath)
	}
	var missing []error
	for _, path := range []string{c.Command, c.Library} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, err)
		}
	}
	return errors.Join(missing...)
}

func (c *Config) directory(id int) string { return filepath.Join(c.Dir, "devices", strconv.Itoa(id)) }
func (c *Config) users(id int) string     { return filepath.Join(c.Dir, "users", strconv.Itoa(id)) }
