package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The engine touches the lines that package traffic expects, in the expected order, and no other.
//
// Another process runs the engine. A step of it is watched: see tracer. The test sees each access of
// the engine's thread to the rings, records, registers and payloads of its clients. It does not see
// how long an access is: an access that begins in one line and ends in the next counts for the first.
// It does not see what the processor fetches ahead, nor which accesses overlap. Key tables are memory
// of the engine and are not watched.
func TestTouches(t *testing.T) {
	require.Equal(t, deviceWindows*len(share.Of(touchRows(*everyTouch))), watchChild(t, childEnv))
}

// Programs that post and poll by package hostpath touch the lines that package traffic expects of
// the host and the peer. Programs do with payloads as they like.
func TestTouchesOfPrograms(t *testing.T) {
	require.Equal(t, programWindows*len(share.Of(programRows(*everyTouch))), watchChild(t, programsEnv))
}

// watchChild watches what another process does if it is started with this variable in its
// environment, and returns how many times it was watched.
func watchChild(t *testing.T, variable string) (n int) {
	if !canTrace {
		t.Skip("single accesses can be watched on amd64 only")
	}
	if shm.RaceEnabled {
		t.Skip("with the race detector, lines are published by other instructions")
	}
	// One thread must make all calls of ptrace. It ends with this test, because it stays on one core.
	runtime.LockOSThread()

	windows, theirWindows, err := os.Pipe()
	require.NoError(t, err)
	defer windows.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTouchesChild$", "-test.timeout=0", share.Flag())
	// The scheduler must not send signals to the thread while it is stepped.
	cmd.Env = append(os.Environ(), variable+"="+strconv.FormatBool(*everyTouch), "GODEBUG=asyncpreemptoff=1")
	cmd.ExtraFiles = []*os.File{theirWindows}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if this test ends in the middle
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	acks, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_ = theirWindows.Close()

	for in := json.NewDecoder(bufio.NewReader(windows)); ; n++ {
		var w watching
		if err := in.Decode(&w); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		tr, err := newTracer(w.TID)
		if n == 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Skip("no process may be traced here: ", err)
		}
		require.NoError(t, err)
		_, err = acks.Write([]byte{0})
		require.NoError(t, err)
		list, err := tr.watch(w.Watched)
		tr.close()
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("%s: %v\n%s", w.Name, err, output.String())
		}
		got := locate(w.Regions, list)
		if d := compare(w.Want, got); d != nil {
			each, _ := lines(got)
			t.Errorf("%s:\n  %s\nexpected %v\nseen     %v", w.Name, strings.Join(d, "\n  "), w.Want, each)
			continue
		}
		requireSensitive(t, &w, got)
	}
	require.NoError(t, cmd.Wait(), output.String())
	return n
}

// requireSensitive plants differences: each touch that is left out, or turned from a load into a
// store, must be noticed.
func requireSensitive(t *testing.T, w *watching, got []touch) {
	t.Helper()
	_, from := lines(w.Want)
	news := make(map[int]bool) // touches that are not repetitions
	for _, i := range from {
		news[i] = true
	}
	for i := range news {
		without := slices.DeleteFunc(slices.Clone(w.Want), func(t touch) bool { return t == w.Want[i] })
		require.NotEmpty(t, compare(without, got), "%s: without %v", w.Name, w.Want[i])
		other := slices.Clone(w.Want)
		other[i].Write = !other[i].Write
		require.NotEmpty(t, compare(other, got), "%s: with %v", w.Name, other[i])
	}
}
