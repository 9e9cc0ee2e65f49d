package nicless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fault"
)

// Limits bound what one client may take: regions, their bytes, PDs, MRs, CQs, QPs
// and channels. Zero fields mean the defaults.
//
//	Regions, PDs, MRs, CQs, QPs, Channels int
//	Bytes uint64 // of all regions together
type Limits = engine.Limits

// Config says how an engine behaves. The zero value is right for most programs.
type Config struct {
	// CPUs lists the cores that the engine's thread may run on. Nil leaves the
	// choice to the kernel.
	CPUs []int

	// Cores lists cores, each of which gets a thread of the engine. Cores and CPUs must not
	// both be set. Clients are divided among the threads. Clients that are connected to each
	// other are put on one thread where that is possible, because only the work between
	// clients of one thread runs in parallel with the work of other threads. Several Cores
	// are for Serve: with Open there is only one client. See docs/TUNING.md.
	Cores []int

	// Stay keeps each client on the thread that it is first put on.
	Stay bool

	// DMACores lists cores for threads that only copy. They copy transfers of 256 KiB and
	// more, while the engine's thread continues with other work. The cores must not be
	// among CPUs. DMACores cannot be combined with several Cores. Nil means that there are
	// no such threads: the engine's own thread copies.
	DMACores []int

	// Spin keeps the engine from sleeping while there is no work. The first work after a
	// pause is then executed at once, but the engine keeps its core busy all the time.
	Spin bool

	// Monitor is Spin with UMWAIT between polls: the core uses less power and leaves more
	// to its hyperthread. Work that arrives on a different queue than the previous work is
	// found a microsecond later than with Spin. On a processor without WAITPKG the engine
	// spins, and Log says so.
	Monitor bool

	// PostersStep lets goroutines that post execute their work themselves while the engine's thread sleeps,
	// and lets this thread sleep as soon as nothing else needs it. A post to a queue pair of the Context then
	// executes short work before it returns, without a second core; it spends at most some hundred
	// microseconds on it, and the engine's thread does what is left. The thread works as usual while it is
	// awake, for links and for other programs. It is for Open with one of Cores or none, and without Spin and
	// Monitor. Where the program has one core only, the engine does so by itself.
	PostersStep bool

	// Populate allocates all pages of a region when the region is made, on another thread
	// than the engine's, and charges them to the engine. A client in a separate memory
	// cgroup then cannot delay the engine's thread by keeping the client's pages swapped
	// out. Making 1 MiB takes 0.5 to 1.5 ms longer, and memory that is never used is
	// allocated too.
	Populate bool

	// Limits bound what one client may take. Zero fields mean the defaults.
	Limits Limits

	// VerbsDevices is how many devices Serve shows to programs that use rdma-core, in the
	// directory PATH.verbs beside the socket. 0 means none. Open ignores it.
	VerbsDevices int

	// DeviceNames names the devices that clients see, in sysfs, rules of faults and explanations:
	// "mlx5_%d", with the number of the device, from 0, in place of %d. Names of at most 63 bytes that
	// can be printed and have no / are possible; with several VerbsDevices they need %d. "" means
	// "nicless%d".
	DeviceNames string

	// GUID identifies the engine, and is the GUID of its first device; the next devices have the next
	// ones. It is an EUI-64 that is not of a group, and no other engine that this one meets may have
	// it. 0 means one by chance. (nicless engine and nicless run choose one that stays: docs/VERBS.md.)
	GUID uint64

	// NoVerbsDEVX keeps firmware commands (DEVX) of mlx5 from these programs. NVSHMEM, NCCL and DOCA make
	// their queues by such commands and do not work without; UCX uses them by itself wherever they are
	// possible.
	NoVerbsDEVX bool

	// VerbsGuardPosts has the engine guard the send queues of these programs, because something posts
	// there whose stores arrive in any order, such as a GPU: it executes a WQE when all of it is there. It
	// costs the engine a second copy of each WQE; see docs/VERBS.md.
	VerbsGuardPosts bool

	// Links lead to other engines and hosts, as nicless engine --link says: "pool:PATH",
	// "ucx:HOST:PORT", "roce:ADDRESS", "auto" or "none". Each but "none" may have options, such as
	// "auto,peer=10.0.0.0/8" or "roce:ADDRESS,key=FILE"; see docs/FABRIC.md. With "auto", RoCE opens when
	// a program connects to an address that is not of this engine. Nil means "auto" if VerbsDevices is
	// not 0, otherwise "none".
	Links []string

	// LinkUsers are the users, by name or uid, for whose programs the link "auto" opens RoCE and carries
	// packets. ["all"] means all users. Nil means root and the user who runs the engine; a list names
	// that user too to include it. Links that have an address of their own ("roce:ADDRESS", pools, UCX)
	// serve all clients.
	LinkUsers []string

	// Disclose says how much the engine says to the other engines on its links that ask what it does, as
	// nicless links --all does: "counts" of what its programs have and did, "programs" for their names and
	// counts too, or "nothing". "" means "counts".
	Disclose string

	// VerbsLinks has the link layers of these devices, in turn: "ethernet" (RoCE) or
	// "infiniband". None means Ethernet for all.
	VerbsLinks []string

	// Memory is where Open places the memory of all objects, for posters that map a file and have
	// no connection to the engine. Nil means memory of its own. Serve refuses it.
	Memory *Memory

	// Faults are rules of faults that the engine obeys from the beginning, for all clients; nil: none.
	// Context.Faults sets rules later, and says how often they have acted. docs/FAULTS.md describes them.
	Faults *fault.Rules

	// Log receives the device's reports about faults, on a separate goroutine. The last
	// reports come when the context is closed or Serve returns. They are lost if the
	// program ends before that, for instance by os.Exit. Nil means no log.
	Log *slog.Logger
}

// Open starts an engine inside this program and returns a client of it. The
// engine ends when the Context is closed. To let other processes use the engine,
// see [Serve].
func Open(cfg Config) (*Context, error) {
	if len(cfg.Cores) > 1 {
		return nil, fmt.Errorf("nicless: Open with Cores %v; an engine inside a program has one client, which one thread serves", cfg.Cores)
	}
	dev, err := openEmbedded(cfg)
	if err != nil {
		return nil, err
	}
	return newContext(dev, cfg.Log)
}

// Serve runs an engine for other processes, which connect to it by [Dial] with the path of
// its unix socket. When ctx ends, Serve returns nil. mode is the socket's permission bits,
// which decide who may connect. If ready is not nil, Serve calls it as soon as clients can
// connect.
//
// Serve replaces a socket left behind by an engine that is gone. It is an error if an
// engine still answers at path. Before Serve returns, the engine executes or flushes the
// work that has been announced, and then disconnects the clients. Their calls return
// ErrDeviceGone at once, and their polls return it after the last completions.
func Serve(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	if cfg.Memory != nil {
		return errMemory
	}
	return serveSocket(ctx, path, mode, cfg, ready)
}

// ServeListener is Serve on a socket that exists already. The socket can come from a service
// manager (socket activation) or from net.ListenUnix, for instance. Its network must be
// "unixpacket". ServeListener closes l in all cases, also when it returns an error, but it
// does not remove the socket's file.
//
// For Config.VerbsDevices the socket must have a path. Only the user who runs the engine
// may use these devices.
func ServeListener(ctx context.Context, l *net.UnixListener, cfg Config, ready func()) error {
	if l == nil {
		return errors.New("nicless: serve: no listener (nil)")
	}
	l.SetUnlinkOnClose(false)
	// If an error occurs before the server has taken over l, l is closed here. That is done
	// on another goroutine, because connections that were not accepted may hold descriptors
	// that are slow to close.
	defer func() { go l.Close() }()
	path := l.Addr().String()
	if cfg.VerbsDevices > 0 && (path == "" || path[0] == '@') {
		return fmt.Errorf("nicless: serve: VerbsDevices %d on a socket without a path", cfg.VerbsDevices)
	}
	if cfg.Memory != nil {
		return errMemory
	}
	return serveListener(ctx, l, path, cfg, ready)
}

// errMemory refuses memory for clients, which have memory of their own.
var errMemory = errors.New("nicless: serve: Memory is for Open: clients have memory of their own")

// LinksSuffix, appended to the path of the socket, gives the socket at which nicless links asks for
// the state of the links.
const LinksSuffix = ".links"

// VerbsSuffix, appended to the path of the socket, gives the directory of the devices for
// programs that use rdma-core (see Config.VerbsDevices).
const VerbsSuffix = ".verbs"
