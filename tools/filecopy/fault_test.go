package main

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Completions and credits that do not come, or come twice, are reported with their kind.
func TestCompletions(t *testing.T) {
	for _, c := range []struct {
		name string
		c    nicless.Completion
		want string
	}{
		{"a write lost", nicless.Completion{ID: 8}, "lost: the completion of write 8 came, 7 was next"},
		{"a write twice", nicless.Completion{ID: 6}, "repeated: the completion of write 6 came, 7 was next"},
		{"a credit lost", credit(8), "lost: the credit for chunk 7 came, 6 was next"},
		{"a credit twice", credit(6), "repeated: the credit for chunk 5 came, 6 was next"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&sender{sent: 9, acked: 7, granted: 6}).take(&c.c)
			assert.EqualError(t, err, c.want)
			assert.Equal(t, 3, exitStatus(err))
		})
	}
	early := credit(7)
	assert.EqualError(t, (&sender{sent: 6, granted: 6}).take(&early), "repeated: the receiver is done with 7 chunks of 6 sent")
	assert.NoError(t, outOfOrder("chunk", 1, 1+1<<31, 1<<31))
	assert.ErrorContains(t, outOfOrder("chunk", 0, 1<<31-1, 1<<31), "lost: ")
}

// A deadline is no party's fault on a machine that gave one party no core, or that does not count it.
func TestJudge(t *testing.T) {
	own := parties{"sender": os.Getpid()}
	begun := own.mark()
	if len(begun.waited) == 0 {
		t.Skip("this kernel does not count how long threads wait for a core")
	}
	late := timeout("late")
	begun.at = begun.at.Add(-time.Hour)
	err := own.decide(late, begun)
	assert.Equal(t, 6, exitStatus(err), err)
	for thread := range begun.waited {
		begun.waited[thread] -= 58 * time.Minute
	}
	err = own.decide(late, begun)
	assert.Equal(t, 7, exitStatus(err), err)
	assert.Regexp(t, `^not judged: late \(of 36\d\d\.\d s: sender without a core 34\d\d\.\d s\)$`, err.Error())
	own["engine"] = 0
	assert.ErrorContains(t, own.decide(late, own.mark()), "engine not known")
	other := errors.New("another")
	assert.Equal(t, other, own.decide(other, begun))
}

// A process that stands still gives no answer. If the machine did not give the others a core meanwhile, the
// copy says so and is made again.
func TestNoAnswer(t *testing.T) {
	if len(withoutCore(os.Getpid())) == 0 {
		t.Skip("this kernel does not count how long threads wait for a core")
	}
	const onTheWay = `of \d+ writes \d+ have completed, and \d+ chunks have a credit; nothing came for 2s`
	for _, c := range []struct {
		what, why string
		chunks    int // that come after it stands still
	}{
		{"engine", onTheWay, 256},
		{"receiver", onTheWay, 256},
		{"receiver", `the receiver has all \d+ bytes, and has not told their SHA-256 in 2s`, 0},
	} {
		t.Run(fmt.Sprintf("%s, %d chunks before the end", c.what, c.chunks), func(t *testing.T) {
			for {
				p := newPlace(t)
				p.input(t, 1<<20)
				engine := p.engine(t)
				recv := p.receiver(t)
				send := p.command(t, "-role", "send", "-socket", "engine.sock", "-peer", "peer.sock", "-in", "/dev/stdin", "-timeout", "2s")
				in, err := send.StdinPipe()
				require.NoError(t, err)
				ended := make(chan result, 1)
				go func() { ended <- finish(t, send) }()
				const first = 1<<20 + 2*slots*4096
				_, err = in.Write(content(first)) // the copy is under way then
				require.NoError(t, err)
				if c.chunks == 0 {
					await.Until(t, "the receiver has all chunks", func() bool {
						st, err := os.Stat(partPath(p.path("out"), recv.cmd.Process.Pid))
						return err == nil && st.Size() == first
					})
				}
				stopped := map[string]*role{"engine": engine, "receiver": recv}[c.what].cmd.Process
				require.NoError(t, stopped.Signal(unix.SIGSTOP))
				go func() {
					_, _ = in.Write(content(c.chunks * 4096))
					if c.chunks == 0 {
						_ = in.Close()
					}
				}()
				r := <-ended
				require.NoError(t, stopped.Signal(unix.SIGCONT))
				in.Close()
				recv.wait()
				engine.end(t)
				if c.chunks > 0 { // otherwise the receiver has all it needs when it goes on
					assert.NoFileExists(t, p.path("out"))
				}
				assert.Regexp(t, `^filecopy: error: (no answer|not judged): `+c.why+` \(of .* s: engine without a core .* s, sender .* s, receiver .* s\)\n$`, r.stderr)
				if r.code != 7 {
					assert.Equal(t, 6, r.code)
					return
				}
			}
		})
	}
}

// A folder that is missing is named.
func TestMissingFolders(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 1000)
	r := p.run(t, "-role", "engine", "-socket", "engine.sock", "-link", "pool:/dev/shm/missing/pool,node=0,nodes=2")
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^filecopy: error: .*the directory /dev/shm/missing does not exist`, r.stderr)
	cmd := p.command(t, "-in", in, "-out", "out")
	cmd.Env = append(cmd.Env, "TMPDIR=/missing")
	r = finish(t, cmd)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^filecopy: error: stat /missing: no such file or directory\nfilecopy: hint: set TMPDIR`, r.stderr)
}

func credit(n uint32) (c nicless.Completion) {
	c.Opcode, c.Imm = cqe.WCRecv, n
	return c
}
