//go:build linux && (amd64 || arm64)

package ucx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// silence is how long a process may send nothing. Then it is killed and started again. A process that
	// works sends a message once a second.
	silence = 10 * time.Second

	// sendTime is how long the process may take to receive a message, and to end after msgEnd.
	sendTime = time.Second

	// Before the process is started again, and before a target is tried again, there is a pause: at first
	// firstPause, then each time twice as long, up to mostPause.
	firstPause = 20 * time.Millisecond
	mostPause  = 10 * time.Second
)

// A process is one run of nicless-ucx.
type process struct {
	pid     int
	control *os.File // SOCK_SEQPACKET
	output  *os.File // its standard output and error, to read from
	fatal   string   // why the process ends, as it has reported; "": it has reported nothing
	ready   bool     // the process has reported that UCX works

	worker  []byte     // worker address of UCX
	doors   []doorName // names of the sockets at which libucx means to listen (door.go)
	version string     // version of UCX
	trying  uint32     // number of the connection whose worker address libucp reads now; 0: none
	unknown [3]uint64  // how many messages were dropped: those not of nicless, of no connection, and forged
}

// start starts the program. The caller's goroutine must be locked to its thread, and stay locked until the
// process has ended: the kernel kills the process when the thread that has started it ends.
func (c *Carrier) start() (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("ucx: socket pair: %w", err)
	}
	defer unix.Close(pair[1])
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, err
	}
	control := os.NewFile(uintptr(pair[0]), "nicless:ucx control")
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		_ = control.Close()
		return nil, fmt.Errorf("ucx: pipe: %w", err)
	}
	defer unix.Close(pipe[1])
	_ = unix.SetNonblock(pipe[0], true)
	output := os.NewFile(uintptr(pipe[0]), "nicless:ucx output")
	g := c.cfg.geometry()
	args := []string{programName}
	dead, spin := int(c.cfg.Dead.Milliseconds()), int(c.cfg.Spin.Microseconds())
	for _, n := range []int{g.Slots, g.Data, g.Slots, g.Data, dead, spin} { // both rings have one geometry
		args = append(args, strconv.Itoa(n))
	}
	args = append(args, c.cfg.Library, c.keysWord())
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		var pid int
		// syscall.ForkExec, because package os would make the descriptors blocking.
		pid, err = syscall.ForkExec(c.program, args, &syscall.ProcAttr{
			Env: append(os.Environ(), c.cfg.Env...),
			Files: []uintptr{
				null.Fd(), uintptr(pipe[1]), uintptr(pipe[1]),
				uintptr(pair[1]), c.mem.region.File().Fd(), uintptr(c.mem.wakeFD), uintptr(c.mem.bellFD),
			},
			Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
		})
		if err == nil {
			return &process{pid: pid, control: control, output: output}, nil
		}
	}
	_, _ = control.Close(), output.Close()
	return nil, fmt.Errorf("ucx: start %s: %w", c.program, err)
}

// supervise starts the process, and starts it again when it has ended. If UCX has worked in the process,
// the pause before the next start is always firstPause: a start costs little, and peers wait for it.
// Otherwise the pauses get longer.
func (c *Carrier) supervise() {
	defer c.loops.Done()
	runtime.LockOSThread() // the thread ends with the goroutine
	for pause := firstPause; ; {
		why, cause, worked := c.live()
		if !c.closing() {
			c.restarts[cause].Add(1) // before ended: whoever sees a connection end finds the restart counted
		}
		c.ended(why)
		if c.closing() {
			return
		}
		c.mu.Lock()
		c.startPause = pause
		c.mu.Unlock()
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
		if worked {
			pause = firstPause
		}
	}
}

const closedHere = "the link is closed here"

// closing reports whether Close was called.
func (c *Carrier) closing() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// live starts the process and returns when the process has ended. why says why it has ended, as a sentence
// without a full stop, and worked whether UCX has worked in the process.
func (c *Carrier) live() (why string, cause ending, worked bool) {
	if c.closing() {
		return closedHere, endedByExit, false
	}
	c.mem.reset()
	known := interfaces()
	p, err := c.start()
	if err != nil {
		return err.Error(), endedBeforeStart, false
	}
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		c.relay(p.output)
	}()
	read := make(chan error, 1)
	go func() { read <- c.read(p) }()
	stop := c.stop    // nil after the carrier was closed
	newlyUsable := "" // a network interface that UCX does not know; the process has to start again for it
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if stop != nil && c.waits() {
				newlyUsable = newInterface(known)
			}
			if newlyUsable == "" {
				continue
			}
		case <-stop:
			stop = nil
			c.leave()
			if c.send(p, &message{kind: msgEnd}) == nil {
				time.AfterFunc(sendTime, func() { _ = p.control.SetReadDeadline(time.Now()) })
				continue
			}
		case err = <-read:
		}
		break
	}
	_ = unix.Kill(p.pid, unix.SIGKILL) // no other process can have this number before Wait4
	var status unix.WaitStatus
	for {
		if _, waited := unix.Wait4(p.pid, &status, 0, nil); !errors.Is(waited, unix.EINTR) {
			break
		}
	}
	_ = p.control.Close()
	_ = p.output.Close() // ends relay, even if a child of the process has the other end of the pipe
	<-relayed
	c.blame(p, status.Signaled() && status.Signal() != unix.SIGKILL)
	worked = p.ready
	switch {
	case c.closing():
		return closedHere, endedByExit, worked
	case newlyUsable != "":
		return fmt.Sprintf("%s has come up, and UCX knows only interfaces that were up at its start", newlyUsable), endedForInterface, worked
	case p.fatal != "":
		return p.fatal, endedByExit, worked
	case errors.Is(err, errSilent):
		return err.Error(), endedBySilence, worked
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET):
		return err.Error(), endedByExit, worked
	case status.Signaled() && status.Signal() == unix.SIGABRT:
		return fmt.Sprintf("the process %s has ended itself: an assertion of UCX has failed", programName), endedByAssertion, worked
	case status.Signaled() && status.Signal() != unix.SIGKILL:
		return fmt.Sprintf("the process %s has ended: %v", programName, status.Signal()), endedBySignal, worked
	case status.Exited():
		return fmt.Sprintf("the process %s has ended with status %d", programName, status.ExitStatus()), endedByExit, worked
	}
	return fmt.Sprintf("the process %s was killed", programName), endedByKill, worked
}

var errSilent = fmt.Errorf("ucx: the process %s has said nothing for %v, and was killed", programName, silence)

// read reads messages of the process until it ends.
func (c *Carrier) read(p *process) error {
	b := make([]byte, maxMessage+1)
	late, reset := false, false
	for {
		n, err := c.readOne(p, b, &late)
		if errors.Is(err, unix.ECONNRESET) && !reset {
			// The process has ended before it has read all messages. The kernel reports this error once,
			// and then gives what the process has sent before it ended, such as the reason.
			reset = true
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		m, err := parseMessage(b[:n])
		if err != nil {
			return err
		}
		c.handle(p, &m)
	}
}

// readOne reads one message. If no message comes in time, n is 0 the first time, and late becomes true:
// perhaps the process has sent one, and this program has stood still. If no message comes the second time,
// the error is errSilent.
func (c *Carrier) readOne(p *process, b []byte, late *bool) (n int, err error) {
	wait := silence
	if *late {
		wait = sendTime
	}
	_ = p.control.SetReadDeadline(time.Now().Add(wait))
	if c.closing() {
		_ = p.control.SetReadDeadline(time.Now().Add(sendTime))
	}
	n, err = p.control.Read(b)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && *late:
		return 0, errSilent
	case errors.Is(err, os.ErrDeadlineExceeded):
		*late = true
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	*late = false
	return n, nil
}

// send sends a message to the process. It does not wait for long.
func (c *Carrier) send(p *process, m *message) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(sendTime))
	_, err := p.control.Write(m.append(make([]byte, 0, messageHead+len(m.body))))
	return err
}

// relay logs what the process writes to its standard output and error: messages of UCX.
func (c *Carrier) relay(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		c.log.Warn("UCX says", "line", text(lines.Bytes()))
	}
	_, _ = io.Copy(io.Discard, r) // the scanner has stopped at a line that is too long, or at the end
}
