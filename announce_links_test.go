package nicless

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// Clients of two engines that a link joins read each other's announcements.
func TestAnnounceOverLinks(t *testing.T) {
	pool := func(t *testing.T, coherence string) [2]string {
		link := fmt.Sprintf("pool:%s,dead=1m,coherence=%s,size=8M,node=", filepath.Join(t.TempDir(), "pool"), coherence)
		return [2]string{link + "0", link + "1"}
	}
	for name, links := range map[string]func(t *testing.T) [2]string{
		"pool":            func(t *testing.T) [2]string { return pool(t, "full") },
		"incoherent pool": func(t *testing.T) [2]string { return pool(t, "none") },
		"ucx": func(t *testing.T) [2]string {
			ucxtest.NeedUCX(t)
			t.Setenv("NICLESS_UCX", ucxtest.Program(t))
			at := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
			return [2]string{"ucx:listen=" + at + ",tls=tcp+self,devices=lo", "ucx:" + at + ",tls=tcp+self,devices=lo"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			link := links(t)
			a, err := Open(Config{Links: []string{link[0]}})
			require.NoError(t, err)
			defer a.Close()
			require.NoError(t, a.Announce([]byte("a")))
			path := inProcess(t, Config{Links: []string{link[1]}})
			b, c := dialed(t, path), dialed(t, path)
			eventually(t, b, "a")
			require.Empty(t, announced(t, a))
			require.NoError(t, b.Announce([]byte("b")))
			eventually(t, a, "b")
			require.NoError(t, c.Announce([]byte("c")))
			eventually(t, a, "b", "c")
			list, err := a.Announcements()
			require.NoError(t, err)
			require.Equal(t, Announcement{Device: b.Device(), Client: 2, Value: []byte("c")}, list[1])
			require.NoError(t, a.Announce([]byte("a again")))
			eventually(t, b, "a again", "c")
			require.NoError(t, b.Close())
			eventually(t, a, "c")
			require.NoError(t, c.Announce(nil))
			eventually(t, a)
			require.NoError(t, a.Close())
			eventually(t, c)
		})
	}
}

// The announcements of clients of an engine go with the engine, whether it is killed or stands still, and
// come back with it.
func TestAnnouncingEngineIsKilled(t *testing.T) {
	dir := t.TempDir()
	link := fmt.Sprintf("pool:%s,size=8M,dead=200ms,node=", filepath.Join(dir, "pool"))
	a, err := Open(Config{Links: []string{link + "0"}})
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, a.Announce([]byte("a")))
	require.Empty(t, announced(t, a))
	t.Setenv("NICLESS_TEST_LINKS", link+"1")
	for range 2 {
		e, path := startEngine(t)
		p := rerun(t, "announcer", path)
		require.Equal(t, "announced", p.line(t))
		eventually(t, a, "from a process")
		eventually(t, dialed(t, path), "a", "from a process")

		require.NoError(t, e.Process.Signal(syscall.SIGSTOP))
		eventually(t, a)
		require.NoError(t, e.Process.Signal(syscall.SIGCONT))
		eventually(t, a, "from a process")

		p.kill()
		eventually(t, a)
		p = rerun(t, "announcer", path)
		require.Equal(t, "announced", p.line(t))
		eventually(t, a, "from a process")
		e.kill()
		eventually(t, a)
	}
}

// Programs on two engines connect by Descriptors that they announce, and by nothing else.
func TestDescriptorsByAnnouncement(t *testing.T) {
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	end := func(node int) (p peer) {
		var err error
		p.ctx, err = Open(Config{Links: []string{fmt.Sprint(link, node)}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.ctx.Close() })
		p.pd, err = p.ctx.AllocPD()
		require.NoError(t, err)
		p.mr, err = p.pd.RegisterMemory(4096, FullAccess)
		require.NoError(t, err)
		p.cq, err = p.ctx.CreateCQ(CQConfig{})
		require.NoError(t, err)
		p.qp, err = p.pd.CreateQP(QPConfig{SendCQ: p.cq})
		require.NoError(t, err)
		d := p.qp.Descriptor(p.mr.Remote("mailbox"))
		value, err := d.MarshalBinary()
		require.NoError(t, err)
		require.NoError(t, p.ctx.Announce(value))
		return p
	}
	connect := func(p peer) (mailbox RemoteMemory) {
		for {
			list, err := p.ctx.Announcements()
			require.NoError(t, err)
			if len(list) == 1 {
				var theirs Descriptor
				require.NoError(t, theirs.UnmarshalBinary(list[0].Value))
				require.Equal(t, list[0].Device, theirs.Device)
				require.NoError(t, p.qp.Connect(theirs, Connection{}))
				mailbox, err = theirs.Find("mailbox")
				require.NoError(t, err)
				return mailbox
			}
			changed(t, p.ctx)
		}
	}
	a, b := end(0), end(1)
	to := connect(a)
	connect(b)
	require.NoError(t, b.qp.PostRecv(&RecvWR{}))
	copy(a.mr.Bytes(), "hello")
	require.NoError(t, a.qp.PostSend(&SendWR{Op: WriteImm, Flags: Signaled, SGE: []SGE{a.mr.SGE(0, 5)}, RemoteAddr: to.Addr, RKey: to.RKey}))
	for _, p := range []peer{a, b} {
		var done [1]Completion
		_, err := p.cq.Wait(t.Context(), done[:])
		require.NoError(t, err)
		require.NoError(t, done[0].Err())
	}
	require.Equal(t, "hello", string(b.mr.Bytes()[:5]))
}

// A link has room for some announcements of an engine. The log says that others are left out.
func TestAnnouncementsLeftOut(t *testing.T) {
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	a, err := Open(Config{Links: []string{link + "0"}})
	require.NoError(t, err)
	defer a.Close()
	var log lockedLog
	path := inProcess(t, Config{Links: []string{link + "1"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	var want []string
	for i := range 18 {
		c := dialed(t, path)
		value := fmt.Sprintf("%02d%s", i, strings.Repeat("x", MaxAnnouncement-2))
		require.NoError(t, c.Announce([]byte(value)))
		want = append(want, value)
	}
	eventually(t, a, want[:16]...)
	until(t, "a warning", func() bool { return strings.Contains(log.String(), `"left out"=2 announcements=18 "most bytes"=8000`) })
	require.Len(t, announced(t, dialed(t, path)), 18)
}

// A lockedLog keeps what is written while it is read.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
