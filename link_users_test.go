package nicless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// connector connects a queue pair to one of another host, and says how that went.
func connector(path string) string {
	p, err := newPeer(path)
	if err != nil {
		return err.Error()
	}
	defer p.ctx.Close()
	err = p.qp.Connect(Descriptor{Device: 9, Transport: RC, Address: netip.MustParseAddr("10.66.0.9"), QPN: 77}, Connection{})
	switch {
	case err == nil:
		return "connected"
	case errors.Is(err, ErrDenied):
		return "denied: " + err.Error()
	}
	return err.Error()
}

// alone runs the test again as root of a network namespace of its own, with one private address, and returns
// false. There, it returns true. Unlike in a user namespace, processes can have other uids there.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to run clients as another user")
	}
	const env = "NICLESS_TEST_ALONE"
	if os.Getenv(env) != t.Name() {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+t.Name())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("root may not make network namespaces here")
		}
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return false
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	addAddress(t, "10.66.0.1/24")
	return true
}

// addAddress gives the namespace of alone another address.
func addAddress(t *testing.T, cidr string) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	addr, err := netlink.ParseAddr(cidr)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(lo, addr))
}

// A lockedBuffer is written by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// A shared engine opens RoCE for native clients of its own user, of root, and of the users whom its owner
// names, and for no others; the log says for whom. The processes, the uids and the sockets are real.
func TestOnlyNamedUsersOpenLinks(t *testing.T) {
	if !alone(t) {
		return
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "nicless") // not t.TempDir, which belongs to root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	exe := filepath.Join(dir, "client.test")
	b, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, b, 0o755))
	for i, row := range []struct {
		links, users []string
		want         map[uint32]string
		open         int
	}{
		{[]string{"auto"}, nil, map[uint32]string{nobody: "uid 65534 may not open RoCE on 10.66.0.1; the owner of the engine allows it with --link-users", 0: "connected"}, 1},
		{[]string{"auto"}, []string{"4242"}, map[uint32]string{nobody: "denied: ", 0: "denied: ", 4242: "connected"}, 1},
		{[]string{"auto"}, []string{"all"}, map[uint32]string{nobody: "connected"}, 1},
		{[]string{"roce:10.66.0.1"}, nil, map[uint32]string{nobody: "connected"}, 1},
		{[]string{"auto,peer=10.66.1.0/24"}, []string{"all"}, map[uint32]string{nobody: "10.66.0.9 is not among the peers of RoCE"}, 0},
		{[]string{"auto,address=10.66.1.0/24"}, []string{"all"}, map[uint32]string{nobody: "this engine has no IP address for it"}, 0},
	} {
		path := filepath.Join(dir, fmt.Sprint(i))
		log := new(lockedBuffer)
		cfg := Config{Links: row.links, LinkUsers: row.users, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		ctx, cancel := context.WithCancel(context.Background())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- Serve(ctx, path, 0o666, cfg, func() { close(ready) }) }()
		<-ready
		for _, uid := range []uint32{nobody, 0, 4242} {
			want, ok := row.want[uid]
			if !ok {
				continue
			}
			client := exec.Command(exe, path)
			client.Env = append(os.Environ(), "NICLESS_TEST_ROLE=connector")
			client.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
			out, err := client.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), want, "%q, users %q, uid %d", row.links, row.users, uid)
			if want == "connected" && row.links[0] == "auto" {
				require.Regexp(t, fmt.Sprintf(`msg="RoCE opened" address=10\.66\.0\.1 port=4791 peers=all because="a queue pair is connected to 10\.66\.0\.9" for="pid %d uid %d`, client.Process.Pid, uid), log.text())
			}
		}
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, row.open, strings.Count(log.text(), "RoCE opened"), "%q, users %q: %s", row.links, row.users, log.text())
	}
	_, err = Open(Config{LinkUsers: []string{"no such user"}})
	require.ErrorContains(t, err, `nicless: LinkUsers: user "no such user"`)
}

// packetsFrom returns how many packets of a peer the engine's links have taken.
func packetsFrom(t *testing.T, path, peer string) (n uint64) {
	t.Helper()
	var reports []links.Report
	require.NoError(t, unixsock.Query(path+LinksSuffix, time.Minute, &reports))
	for _, r := range reports {
		for _, p := range r.Peers {
			if p.Name == peer {
				n += p.Stats.Received
			}
		}
	}
	return n
}

// A UD queue pair of a program that has no peers elsewhere is not reached from the network when another
// program opens the port, although the sender knows its number and its Q_Key. The port and the sender's
// socket are real.
func TestBystanderIsNotReached(t *testing.T) {
	if !alone(t) {
		return
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	addr, err := netlink.ParseAddr("10.66.0.9/24")
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(lo, addr))
	path := inProcess(t, Config{Links: []string{"auto"}})
	bystander, err := newPeer(path)
	require.NoError(t, err)
	defer bystander.ctx.Close()
	sends, err := bystander.ctx.CreateCQ(CQConfig{})
	require.NoError(t, err)
	ud, err := bystander.pd.CreateQP(QPConfig{SendCQ: sends, RecvCQ: bystander.cq, Type: UD})
	require.NoError(t, err)
	require.NoError(t, ud.Activate())
	receive := func() {
		require.NoError(t, ud.PostRecv(&RecvWR{ID: 1, SGE: []SGE{bystander.mr.SGE(0, 256)}}))
	}
	receive()
	opener, err := newPeer(path)
	require.NoError(t, err)
	defer opener.ctx.Close()
	require.NoError(t, opener.qp.Connect(Descriptor{Device: 9, Transport: RC, Address: netip.MustParseAddr("10.66.0.9"), QPN: 77}, Connection{}))

	from, to := netip.MustParseAddr("10.66.0.9"), netip.AddrPortFrom(netip.MustParseAddr("10.66.0.1"), packet.Port)
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	require.NoError(t, err)
	defer conn.Close()
	op := packet.MakeOpcode(packet.UD, packet.SendOnly)
	b := make([]byte, op.Info().HeaderSize+8+packet.ICRCSize)
	packet.BTH{Opcode: op, Migrated: true, PKey: 0xffff, DestQP: ud.QPN()}.Put((*[packet.BTHSize]byte)(b))
	packet.DETH{QKey: ud.Descriptor().QKey, SrcQP: 9}.Put((*[packet.DETHSize]byte)(b[op.Info().OffDETH:]))
	packet.MakeFlow(conn.LocalAddr().(*net.UDPAddr).AddrPort(), to).Seal(b, 0)
	before := packetsFrom(t, path, "10.66.0.9")
	const datagrams = 20
	for range datagrams {
		_, err = conn.WriteToUDPAddrPort(b, to)
		require.NoError(t, err)
	}
	await.Until(t, "the datagrams arrive", func() bool { return packetsFrom(t, path, "10.66.0.9") >= before+datagrams })

	// Meanwhile, and afterwards, the queue pair takes the datagrams of its own engine, and only these.
	self := bystander.ctx.Address(ud.QPN(), ud.Descriptor().QKey)
	var list [4]Completion
	for range 500 {
		require.NoError(t, ud.PostSend(&SendWR{Op: Send, Flags: Signaled, SGE: []SGE{bystander.mr.SGE(512, 8)}, To: self}))
		_, err = sends.Wait(t.Context(), list[:])
		require.NoError(t, err)
		n, err := bystander.cq.Wait(t.Context(), list[:])
		require.NoError(t, err)
		for _, c := range list[:n] {
			require.NoError(t, c.Err())
			require.Equal(t, ud.QPN(), c.SrcQP)
			receive()
		}
	}
}
