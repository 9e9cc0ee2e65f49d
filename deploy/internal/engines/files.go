//go:build linux && (amd64 || arm64)

package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTaken is the error of Open if another process has the directory.
var ErrTaken = errors.New("another process has this directory")

// makeTree makes the directories of a pool, and installs the library.
func (c *Config) makeTree() error {
	for _, d := range []struct {
		name string
		mode os.FileMode
		gid  int
	}{{"", 0o711, -1}, {"lib", 0o755, -1}, {"users", 0o711, -1}, {"devices", 0o710, c.gid()}} {
		path := filepath.Join(c.Dir, d.name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		// The umask has no say.
		if err := errors.Join(os.Chown(path, -1, d.gid), os.Chmod(path, d.mode)); err != nil {
			return err
		}
	}
	return c.install()
}

func (c *Config) gid() int {
	if c.User == nil {
		return -1
	}
	return int(c.User.GID)
}

// own gives a file to the user of the engines.
func (c *Config) own(path string) error {
	if c.User == nil {
		return nil
	}
	return os.Lchown(path, int(c.User.UID), int(c.User.GID))
}

// install copies the library to where containers have it mounted. Programs may have mapped the former one,
// so it is replaced and not written to.
func (c *Config) install() (err error) {
	from, err := os.Open(c.Library)
	if err != nil {
		return err
	}
	defer from.Close()
	dir := filepath.Join(c.Dir, "lib")
	to, err := os.CreateTemp(dir, libraryName+".")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	err = errors.Join(err, to.Chmod(0o755), to.Close())
	if err == nil {
		err = os.Rename(to.Name(), filepath.Join(dir, libraryName))
	}
	if err != nil {
		_ = os.Remove(to.Name())
	}
	return err
}

// tryLock opens a file, which it makes if it is missing, and locks it. It fails with ErrTaken if another
// process has locked it.
func tryLock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrTaken
	}
	return nil, errors.Join(fmt.Errorf("%s: lock: %w", path, err), f.Close())
}

// waitLock locks a file exclusively as soon as no other process has locked it. It fails when ctx ends.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		f, err := tryLock(path, unix.LOCK_EX)
		if !errors.Is(err, ErrTaken) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-again.C:
		}
	}
}

// fresh makes a new directory for a container, in place of the former one. It is another inode: a container
// that still has the former one mounted sees nothing of what comes.
func (c *Config) fresh(id int) error {
	path := c.directory(id)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o755), c.own(path))
}

// clean removes what an engine has left in its directory, which a container may have mounted.
func (c *Config) clean(id int) error {
	path := c.directory(id)
	list, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return c.fresh(id)
	}
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
	}
	return err
}

// readClaims returns the claims of the former process.
func (c *Config) readClaims() (claims [][]int, err error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, "claims.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return nil, fmt.Errorf("claims.json: %w", err) // and not the part that was read
	}
	return claims, nil
}

// writeClaims writes the claims for the next process.
func (c *Config) writeClaims(claims [][]int) error {
	text, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	path := filepath.Join(c.Dir, "claims.json")
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
