//go:build linux && (amd64 || arm64)

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/cm"
	"golang.org/x/sys/unix"
)

// A process is one connection together with the operating system's process at its other end.
type process struct {
	s          *Server
	conn       *unixsock.Conn
	pid        int32
	uid        uint32
	opener     *opener
	lineage    string // numbers of the process and its ancestors, for watchers
	name       string // for the log
	fast       bool   // memory that is registered may be remapped (not with --slow-memory)
	devx       bool   // contexts may have firmware commands: not Config.NoDEVX, unless the program says
	guarded    bool   // send queues are guarded: Config.GuardPosts, unless the program says
	greeted    bool
	helloTimer *time.Timer // ends the connection if hello does not come in time
	guard      nic.Guard   // zero: the process has none
	key        netnsKey
	net        *netns // the server's nowhere until the process has sent its addresses
	memory     *memory
	subscriber *subscriber
	contexts   map[uint64]*uctx   // contexts that it has opened or adopted, by the inode of their socket
	pending    map[uint64]*extent // extents that the shim was asked to map, by address
	// Channels of rdma_cm that the process has opened or adopted, by the inode of their pipe.
	managers  map[uint64]*cmChannel
	mads      map[uint64]*madFile // files of MADs that it has opened or adopted, by the inode of their socket
	program   *cm.Program         // the process as the connection manager sees it
	lines     nic.Speaker         // bounds the lines about this process in the log
	past      history
	explained budget // bounds the lines about this process for watchers
}

// serve serves one program until its connection or ctx ends.
func (s *Server) serve(ctx context.Context, accepted *net.UnixConn) {
	cred, err := unixsock.Credentials(accepted)
	if err != nil {
		_ = accepted.Close()
		s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs program without credentials", "error", err)
		return
	}
	// The connection is charged to its user until it has really been closed. It is closed in
	// the background, because unread descriptors in it can make closing block. From Linux
	// 6.16 on, the connection can contain such descriptors only after hello.
	held, conn := nic.Cost{Descriptors: 1}, nic.Connection(accepted)
	defer func() { s.engine.DiscardConnection(cred.Uid, conn, held) }()
	err = s.engine.Incur(cred.Uid, held)
	if err == nil && s.clogged(cred.Uid) {
		err = errClogged
	}
	if err == nil {
		err = s.engine.Charge(cred.Uid, processCost)
	}
	if err == nil {
		held = held.Plus(processCost)
		_ = accepted.SetReadBuffer(2 * maxDatagram)
		_ = accepted.SetWriteBuffer(2 * maxDatagram)
	}
	p := s.newProcess(cred.Pid, cred.Uid, nil)
	if err == nil {
		p.conn, err = s.silent.NewConn(accepted, cred.Uid)
	}
	if err != nil {
		s.report(cred.Uid, nil, slog.LevelWarn, "verbs program refused", "pid", cred.Pid, "uid", cred.Uid,
			"error", err)
		return
	}
	conn = p.conn
	p.memory.maps = openMaps(cred.Pid)
	p.key = keyOf(conn, cred.Pid, cred.Uid)
	p.lineage = lineage(cred.Pid)
	s.watched.note(Began, p.lineage, p.uid)
	defer s.watched.note(Ended, p.lineage, p.uid)
	defer p.end()
	stop := context.AfterFunc(ctx, func() { unixsock.HangUp(conn) })
	defer stop()
	p.helloTimer = time.AfterFunc(helloTime, func() { unixsock.HangUp(conn) })
	defer p.helloTimer.Stop()
	in, oob := make([]byte, maxDatagram+1), make([]byte, unix.CmsgSpace(4*maxFDs))
	for ctx.Err() == nil {
		if err := p.serveRequest(in, oob); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errEnd) {
				s.report(p.uid, &p.lines, slog.LevelWarn, "verbs connection ended", "program", p.name,
					"error", err)
			}
			return
		}
	}
}

// helloTime is how long a new connection may be silent.
const helloTime = 10 * time.Second

var (
	errEnd     = errors.New("the program has closed")
	errClogged = errors.New("connections of this user do not close, because of unread descriptors in them")
)

func (s *Server) newProcess(pid int32, uid uint32, m *maps) *process {
	return &process{
		s: s, pid: pid, uid: uid, opener: &opener{pid: pid}, lineage: strconv.Itoa(int(pid)),
		name: fmt.Sprintf("pid %d uid %d", pid, uid), key: netnsKey{uid: uid, pid: pid},
		net: s.share(s.nowhere), memory: &memory{engine: s.engine, uid: uid, maps: m},
		subscriber: &subscriber{s: s, counts: make(map[nic.Source]int)}, contexts: make(map[uint64]*uctx),
		pending: make(map[uint64]*extent), managers: make(map[uint64]*cmChannel),
		mads: make(map[uint64]*madFile),
	}
}

// user returns the program as a user of links.
func (p *process) user() nic.User { return nic.User{UID: p.uid, Name: p.name} }

// end is called when the connection has ended. The contexts of the process end with their own sockets.
func (p *process) end() {
	p.opener.ended.Store(true)
	p.ended()
	p.dropPending()
	p.subscriber.end()
	p.s.leave(p.net)
	p.memory.end()
}

// dropPending frees memory that the process was asked to map and for which no result came.
func (p *process) dropPending() {
	for addr, e := range p.pending {
		p.memory.discard(e)
		delete(p.pending, addr)
	}
}

// serveRequest reads one request and answers it. An error ends the connection.
func (p *process) serveRequest(in, oob []byte) error {
	n, oobn, flags, err := p.conn.Peek(in, oob)
	received, bad := unixsock.Received(oob[:oobn])
	var files []nic.File
	for _, f := range received {
		files = append(files, f)
	}
	if len(files) > 0 {
		counted := p.s.engine.Incur(p.uid, nic.Cost{Descriptors: len(files)})
		defer func() { p.s.engine.Discard(p.uid, files) }()
		if counted != nil {
			return counted
		}
	}
	switch {
	case err != nil:
		return errEnd
	// Descriptors that were not received stay in the connection, and the connection is closed in the
	// background.
	case flags&unix.MSG_CTRUNC != 0:
		return fmt.Errorf("%w: more descriptors than %d, or than this process can open", errWire, maxFDs)
	case n == 0 && len(files) == 0:
		return errEnd
	case bad != nil:
		return fmt.Errorf("%w: %w", errWire, bad)
	case flags&unix.MSG_TRUNC != 0:
		return errWire
	}
	if err := p.conn.Take(); err != nil {
		return err
	}
	// The shim reads each answer before it sends the next request. A program that does not do
	// this could collect unread answers with descriptors, and there is a limit on the unread
	// descriptors that this server has sent to all users together.
	if unixsock.Unread(p.conn) {
		return fmt.Errorf("%w: a request before the last answer was read", errWire)
	}
	answer, give, err := p.handle(in[:n], files)
	if err != nil {
		return err
	}
	defer closeFiles(give...)
	return p.conn.Send(answer, give...)
}

// requests has the function for each operation.
var requests = map[wireOp]func(*process, wireHeader, []byte, []nic.File) ([]byte, []*os.File, error){
	opHello: (*process).hello, opOpen: (*process).open, opAdopt: (*process).adopt, opIoctl: (*process).ioctl,
	opMmap: (*process).mmap, opAlloc: (*process).alloc, opFree: (*process).free,
	opAddresses: (*process).addresses, opOpenChannel: (*process).openChannel, opWrite: (*process).write,
	opNetlink: (*process).netlink,
	opOpenMAD: (*process).openMAD, opMADIoctl: (*process).ioctlMAD, opMADRead: (*process).readMAD,
	opCounter: (*process).counter, opLook: (*process).look, opWake: (*process).wake,
}

// handle answers one datagram. The caller sends and closes the files of the answer.
func (p *process) handle(datagram []byte, files []nic.File) (answer []byte, give []*os.File, err error) {
	h, body, err := parseHeader(datagram)
	if err != nil {
		return nil, nil, err
	}
	if !p.greeted && h.op != opHello {
		return nil, nil, fmt.Errorf("%w: operation %d before hello", errWire, h.op)
	}
	serve := requests[h.op]
	if serve == nil {
		return nil, nil, fmt.Errorf("%w: operation %d", errWire, h.op)
	}
	answer, give, err = serve(p, h, body, files)
	if errors.Is(err, errWire) {
		return nil, nil, err
	}
	if err != nil {
		r := refusalOf(err)
		p.reportRefusal(r, "operation", uint16(h.op))
		_ = closeFiles(give...)
		return finish(appendAnswer(nil, h, 0, int32(r.errno))), nil, nil
	}
	return finish(answer), give, nil
}

// reportRefusal logs a refusal, and sends it to the watchers.
func (p *process) reportRefusal(r *refusal, args ...any) {
	args = append([]any{"program", p.name, "errno", errnoName(r.errno), "why", r.text}, args...)
	if r.quiet {
		p.s.log.Debug("verbs refused", args...)
		return
	}
	p.past.refused = true
	p.s.report(p.uid, &p.lines, slog.LevelWarn, "verbs refused", args...)
	if more, ok := p.explained.spend(); ok {
		p.s.watched.send(p.lineage, p.uid, "refused with %s: %s%s", errnoName(r.errno), r.text, more)
	}
}

// hello serves NV_HELLO, the first request of a connection.
func (p *process) hello(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	hello, ok := parseHello(b)
	if !ok {
		return nil, nil, errWire
	}
	if hello.major != wireMajor {
		return nil, nil, refuse(ePROTONOSUPPORT, "the shim speaks version %d, this server %d", hello.major, wireMajor)
	}
	if p.greeted {
		return nil, nil, refuse(eINVAL, "hello: sent twice")
	}
	if p.s.clogged(p.uid) { // this may have become true since the connection was accepted
		return nil, nil, refuse(unix.EMFILE, "hello: %v", errClogged)
	}
	p.greeted = true
	p.fast = hello.wants&wantFast != 0
	p.devx = (p.s.devx || hello.wants&wantDEVX != 0) && hello.wants&noDEVX == 0
	p.guarded = (p.s.guardPosts || hello.wants&wantGuard != 0) && hello.wants&noGuard == 0
	p.guard = nic.Guard{Addr: hello.guard, Cookie: hello.cookie}
	if len(hello.name) > 0 && utf8.Valid(hello.name) {
		p.name = fmt.Sprintf("pid %d uid %d %q", p.pid, p.uid, hello.name)
	}
	if p.conn != nil {
		p.helloTimer.Stop()
		// Until now the connection refused descriptors, if the kernel is Linux 6.16 or later.
		_ = unixsock.PassRights(p.conn, true)
	}
	p.s.report(p.uid, &p.lines, slog.LevelInfo, "verbs program connected", "program", p.name, "fast", p.fast)
	out := appendAnswer(nil, h, 0, 0)
	out = le.AppendUint16(out, wireMajor)
	out = le.AppendUint16(out, wireMinor)
	out = le.AppendUint32(out, uint32(len(p.s.devices)))
	return out, nil, nil
}

// open serves NV_OPEN: it opens a device, and answers with the context.
func (p *process) open(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	if len(b) != openSize {
		return nil, nil, errWire
	}
	n := le.Uint32(b)
	if n >= uint32(len(p.s.devices)) {
		return nil, nil, refuse(unix.ENXIO, "uverbs%d: there are %d devices", n, len(p.s.devices))
	}
	p.endClosed()
	x, theirs, err := p.s.newContext(p.s.devices[n], p)
	if err != nil {
		return nil, nil, err
	}
	p.contexts[x.inode] = x
	p.subscriber.addContext(x)
	x.subscribePort()
	x.net.tree.mu.Lock()
	_ = x.setGIDs() // from now on a change of the table reaches the context; fails only if it has ended
	x.net.tree.mu.Unlock()
	return x.opened(h), []*os.File{theirs}, nil
}

// endClosed ends contexts whose socket is closed, and drops contexts that have ended.
// uctx.await ends them too, but perhaps too late: a program that closes a context and opens the
// next one relies on the first one being gone.
func (p *process) endClosed() {
	for inode, x := range p.contexts {
		if x.hungUp() {
			x.end()
		}
		x.mu.Lock()
		if x.ended {
			delete(p.contexts, inode)
		}
		x.mu.Unlock()
	}
}

// opened returns the answer to a request that has opened or adopted a context.
func (x *uctx) opened(h wireHeader) []byte {
	out := appendAnswer(nil, h, 0, 0)
	out = le.AppendUint64(out, x.inode)
	out = le.AppendUint32(out, devMajor)
	return le.AppendUint32(out, devMinor+x.device.index)
}

// adopt answers which context a descriptor belongs to, for example a descriptor that another
// process has sent to the program. Every process that has the descriptor may use the context.
func (p *process) adopt(h wireHeader, _ []byte, files []nic.File) ([]byte, []*os.File, error) {
	p.endClosed()
	if len(files) != 1 {
		return nil, nil, expected(eBADF, "adopt: %d descriptors were sent; 1 is needed", len(files))
	}
	if ch := p.s.cmChannelOf(files[0]); ch != nil {
		p.managers[ch.inode] = ch
		return ch.opened(h), nil, nil
	}
	cookie, err := cookieOf(files[0]) // before inodeOf, because a file system can block in fstat
	if err != nil {
		return nil, nil, expected(unix.ENOTTY, "adopt: not a socket: %v", err)
	}
	inode, err := inodeOf(files[0])
	if err != nil {
		return nil, nil, expected(eBADF, "adopt: %v", err)
	}
	if f := p.s.madFileOf(inode, cookie); f != nil {
		p.mads[f.inode] = f
		return f.opened(h), nil, nil
	}
	p.s.mu.Lock()
	x := p.s.contexts[inode]
	p.s.mu.Unlock()
	if x == nil || x.cookie != cookie {
		return nil, nil, expected(unix.ENOTTY, "adopt: socket %d is no context", inode)
	}
	p.contexts[x.inode] = x
	p.subscriber.addContext(x)
	return x.opened(h), nil, nil
}

// context returns the context that a request names.
func (p *process) context(h wireHeader) (*uctx, error) {
	if x := p.contexts[h.context]; x != nil {
		return x, nil
	}
	return nil, refuse(eBADF, "context %d: this process has not opened it", h.context)
}
