//go:build linux && (amd64 || arm64)

package unixsock

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// answerTime is how long Report waits for a reader of an answer that is longer than the socket's buffer.
const answerTime = time.Second

// Report listens at a path and writes what value returns, as JSON, to each client that connects, until stop
// is called. A socket that is there already is removed, so the caller must own the name. mode is the
// socket's permission bits. Report returns when it listens. When stop has returned, no file is left at
// path.
func Report(path string, mode fs.FileMode, value func() any) (stop func(), err error) {
	_ = os.Remove(path)
	l, err := ListenStream(path, mode)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(answerTime) // no descriptors are left
				continue
			}
			answer(c.(*net.UnixConn), value(), answerTime)
		}
	}()
	return func() { _ = l.Close() }, nil
}

// answer writes value, as JSON, and closes the connection. The socket's buffer takes the first bytes, in most
// cases all, without a deadline: a process that gets no core may be later than any. For the rest answer waits
// at most for patience.
func answer(c *net.UnixConn, value any, patience time.Duration) {
	defer c.Close()
	b, err := json.Marshal(value)
	if err != nil {
		return
	}
	b = append(b, '\n')
	var n int
	if Control(c, func(fd int) error { n, err = unix.Write(fd, b); return err }) != nil || n == len(b) {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.Write(b[n:])
}

// Query connects to the path of a Report and reads its answer into value.
func Query(path string, patience time.Duration, value any) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	return json.NewDecoder(c).Decode(value)
}
