//go:build linux && (amd64 || arm64)

package verbs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/cm"
	"golang.org/x/sys/unix"
)

// A cmChannel is an open of /dev/infiniband/rdma_cm. The program's descriptor is the read end
// of a pipe that has one byte for each event that waits. So poll, epoll and O_NONBLOCK do what
// they do for the kernel's file. The channel ends when the last copy of that end is closed.
// This server keeps the write end only. To take a byte back, it opens the pipe for reading for
// a moment.
type cmChannel struct {
	s       *Server
	channel *cm.Channel
	inode   uint64
	pipe    *os.File // the write end
	uid     uint32
	bytes   bytesWanted
}

// The number of the device /dev/infiniband/rdma_cm: one of the kernel's miscellaneous devices.
const (
	cmMajor = 10
	cmMinor = 119
)

// pipeSize is the size of a channel's pipe. The kernel frees whole pages, so at least the half
// of it can be used at any time: as many bytes as a channel can have events.
const pipeSize = 2 * pageSize

func (s *Server) managerConfig() cm.Config {
	c := cm.Config{Accounts: s.engine, Unpolled: s.engine.Unpolled}
	for _, d := range s.devices {
		c.Devices = append(c.Devices, cm.Device{GUID: d.guid, AckDelay: ackDelay, MTU: activeMTU})
	}
	if s.fabric != nil {
		c.Wire = &cmWire{s: s, fabric: s.fabric}
	}
	return c
}

// openChannel serves NV_OPEN_CHANNEL.
func (p *process) openChannel(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	if len(b) != 0 {
		return nil, nil, errWire
	}
	p.endClosedChannels()
	ch, theirs, err := p.s.newCMChannel(p.cmProgram())
	if err != nil {
		return nil, nil, err
	}
	p.managers[ch.inode] = ch
	return ch.opened(h), []*os.File{theirs}, nil
}

func (s *Server) newCMChannel(program *cm.Program) (ch *cmChannel, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, refuse(unix.EMFILE, "rdma_cm: no pipe: %v", err)
	}
	_ = unix.SetNonblock(fds[1], true)
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	theirs = os.NewFile(uintptr(fds[0]), "rdma_cm")
	ch = &cmChannel{s: s, uid: program.UID, pipe: os.NewFile(uintptr(fds[1]), "rdma_cm")}
	ch.inode, err = inodeOf(ch.pipe)
	if err == nil {
		ch.channel, err = s.manager.Open(program, ch)
	}
	if err != nil {
		_ = closeFiles(ch.pipe, theirs)
		return nil, nil, err
	}
	s.mu.Lock()
	s.channels[ch.inode] = ch
	s.mu.Unlock()
	go ch.await()
	return ch, theirs, nil
}

func (ch *cmChannel) opened(h wireHeader) []byte {
	out := appendAnswer(nil, h, 0, 0)
	out = le.AppendUint64(out, ch.inode)
	out = le.AppendUint32(out, cmMajor)
	return le.AppendUint32(out, cmMinor)
}

// await waits until the program's last copy of the descriptor is closed, and ends the channel.
func (ch *cmChannel) await() {
	if raw, err := ch.pipe.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) bool { return ch.Gone() })
	}
	ch.end()
}

func (ch *cmChannel) end() {
	ch.s.mu.Lock()
	if ch.s.channels[ch.inode] == ch {
		delete(ch.s.channels, ch.inode)
	}
	ch.s.mu.Unlock()
	ch.s.manager.Close(ch.channel)
	ch.closePipe()
}

// endClosedChannels ends channels whose descriptor is closed, and drops channels that have ended.
func (p *process) endClosedChannels() {
	for inode, ch := range p.managers {
		if ch.Gone() {
			ch.end()
			delete(p.managers, inode)
		}
	}
}

// Gone reports whether no process has the read end open.
func (ch *cmChannel) Gone() bool {
	gone := false
	err := unixsock.Control(ch.pipe, func(fd int) error {
		p := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n == 1 && p[0].Revents&unix.POLLERR != 0
		return nil
	})
	return gone || err != nil
}

// cmChannelOf returns the channel that a descriptor is of, nil if it is of none. It does not
// query the file system of the descriptor, because that could block: a pipe has a size, and
// fdinfo has the numbers of its mount and inode, which are compared with those of our end.
func (s *Server) cmChannelOf(f nic.File) (found *cmChannel) {
	if unixsock.Control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
		return err
	}) != nil {
		return nil
	}
	theirs := fdInfo(f)
	inode, _ := strconv.ParseUint(theirs["ino"], 10, 64) // since Linux 5.14
	s.mu.Lock()
	ch := s.channels[inode]
	s.mu.Unlock()
	if ch == nil || fdInfo(ch.pipe)["mnt_id"] != theirs["mnt_id"] {
		return nil
	}
	return ch
}

// fdInfo returns the kernel's description of a descriptor in /proc/self/fdinfo.
func fdInfo(f nic.File) map[string]string {
	info := make(map[string]string)
	_ = unixsock.Control(f, func(fd int) error {
		b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ":")
			info[name] = strings.TrimSpace(value)
		}
		return err
	})
	return info
}

// closeChannels ends every channel.
func (s *Server) closeChannels() {
	s.mu.Lock()
	var open []*cmChannel
	for _, ch := range s.channels {
		open = append(open, ch)
	}
	s.mu.Unlock()
	for _, ch := range open {
		ch.end()
	}
}

// farewellTime is how long the server waits, at its end, for programs to read their last events.
const farewellTime = 200 * time.Millisecond

// farewell notifies programs that their device goes, and gives them time to read it.
func (s *Server) farewell() {
	s.manager.Remove()
	s.notifyGone()
	for end := time.Now().Add(farewellTime); s.manager.Unread() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// cmProgram returns the process as the connection manager sees it.
func (p *process) cmProgram() *cm.Program {
	ns := namespaceOf(p.net)
	if p.program == nil || p.program.Network != cm.Network(cmNetwork{p.s, p.net}) {
		explained := new(budget) // used under the manager's lock only
		s, lineage, uid, name, pid := p.s, p.lineage, p.uid, p.name, p.pid
		p.program = &cm.Program{
			Owner: p, UID: uid, Namespace: ns, Network: cmNetwork{p.s, p.net},
			LowPorts: func() bool { return mayBindLow(pid, uid) },
			Explain: func(text string) {
				if more, ok := explained.spend(); ok {
					s.watched.send(lineage, uid, "rdma_cm: %s%s", text, more)
					s.engine.Report(uid, slog.LevelWarn, "verbs connection", "program", name, "why", text)
				}
			},
		}
	}
	return p.program
}

// traceCM logs a command.
func (p *process) traceCM(c *cm.Call, err error) {
	if p.s.log.Enabled(context.Background(), slog.LevelDebug) {
		p.s.log.Debug("verbs rdma_cm", "program", p.name, "command", c.Name(), "result", fmt.Sprint(err),
			"written", fmt.Sprintf("%x", c.Written[:min(len(c.Written), traced)]))
	}
}
