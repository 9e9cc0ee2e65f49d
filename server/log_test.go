package server

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A safeBuffer is a log that is read while it is written to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A client that connects in a loop causes a bounded number of lines in the log. Each line
// that is held back is counted, and the connection of another user is in the log.
func TestConnectionsInALoopHaveABudget(t *testing.T) {
	needRoot(t)
	var said safeBuffer
	begun := time.Now()
	r := newRig(t, engine.Config{Log: slog.New(slog.NewTextHandler(&said, nil))})
	path := r.serveAll()
	const loops = 1000
	for i := range loops {
		c := r.dialAs(1000, path)
		if i%2 == 0 {
			c.hello()
		} else {
			c.send([]byte("garbage"))
			c.ended()
		}
		require.NoError(t, c.conn.Close())
	}
	r.until("all are gone", func() bool { return r.charged(nic.Cost{}) })
	spans := int(time.Since(begun)/(10*time.Second)) + 1 // several on a busy machine
	r.d.(nic.Probe).NextSpan()
	r.dialAs(2000, path).hello()
	r.dialAs(1000, path).hello()
	r.e.FlushLog(10 * time.Second)
	text := said.String()
	theirs := strings.Count(text, "uid 1000")
	require.LessOrEqual(t, theirs, spans*256/2+1)
	require.Contains(t, text, "uid 2000")
	counted := 0
	for _, m := range regexp.MustCompile(`unsaid=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		counted += n
	}
	// Lines: connected and gone in each loop, and in half of the loops also the reason.
	const each = loops*2 + loops/2
	require.Equal(t, each, theirs-1+counted)
	t.Logf("%d lines of %d, %d bytes", theirs, each, len(text))
}

// Lines of a level that is not logged use none of the budget.
func TestUnloggedLinesCostNothing(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.serve()
	c := r.dial(path)
	c.hello()
	require.Nil(t, c.call(control.OpAllocPD, &control.Empty{}, &control.PD{}))
	lines := func(r *rig) (n int) {
		for ok := true; ok; n++ {
			_, ok = r.d.MayLog(uint32(os.Geteuid()), nil)
		}
		return n
	}
	require.Equal(t, lines(newRig(t, engine.Config{})), lines(r))
}
