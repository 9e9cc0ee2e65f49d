package programs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
)

// A softRoCE is a host of ours and a virtual machine with Linux's Soft-RoCE, with a cable between
// them that can lose packets.
type softRoCE struct {
	ours, soft *lab
	cable      *process
	orders     io.Writer // what the cable shall lose
}

// The addresses of the two hosts.
const (
	ourAddress4, softAddress4 = "10.78.0.1", "10.78.0.2"
	ourAddress6, softAddress6 = "fd78::1", "fd78::2"
	ourMAC, softMAC           = "02:00:0a:4e:00:01", "02:00:0a:4e:00:02"
)

// softModules are those of Soft-RoCE and of the machine's network interface.
var softModules = []string{"virtio_pci", "virtio_net", "crc32_generic", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"}

// openedByPath are libraries that the programs' files do not name: libibverbs opens the first,
// the C library the second when a thread ends.
var openedByPath = []string{"/usr/lib/*-linux-gnu/libibverbs/librxe-rdmav*.so", "/lib/*-linux-gnu/libgcc_s.so.1"}

// newSoftRoCE starts both. The engine is unprivileged, in a user namespace with the cable's end.
func newSoftRoCE(t *testing.T, programs ...string) *softRoCE {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the machine has the processor amd64, and programs of this host")
	}
	need(t, append(programs, "qemu-system-x86_64", "unshare", "nsenter", "ip", "rdma", "apt-get", "dpkg-deb", "xz", "ldd")...)
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		proctest.Missing(t, "needs TAP devices: %v", err)
	} else {
		_ = f.Close()
	}
	if said, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		proctest.Missing(t, "needs user namespaces: %v %s", err, said)
	}
	kernel, err := vm.Fetch("linux-image-amd64")
	if err != nil {
		proctest.Missing(t, "needs a kernel from Debian: %v", err)
	}
	s := &softRoCE{}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ends := []*os.File{os.NewFile(uintptr(pair[0]), "cable"), os.NewFile(uintptr(pair[1]), "cable")}
	inside := s.lay(t, ends[0])
	s.ours = &lab{t: t, inside: inside, engineFlags: []string{"--log-level", "debug"}}
	s.ours.open()
	s.soft = &lab{t: t, machine: softMachine(t, kernel, ends[1], append(programs, "ip", "rdma", "cat"))}
	for _, f := range ends {
		_ = f.Close()
	}
	s.soft.far, s.ours.far = s.ours.alone(), s.soft.alone()
	s.ours.words = s.ours.wordsOf(t, "nicless0", ourAddress4, ourAddress6, s.ours.run("ibv_devinfo", "-v"))
	s.soft.words = s.soft.wordsOf(t, "rxe0", softAddress4, softAddress6, s.soft.run("ibv_devinfo", "-v"))
	s.soft.far.words, s.ours.far.words = s.ours.words, s.soft.words
	return s
}

// alone is the lab without its far one.
func (l *lab) alone() *lab {
	other := *l
	other.far = nil
	return &other
}

// lay makes the user namespace and the cable's end in it. It returns the command line under which
// programs run there.
func (s *softRoCE) lay(t *testing.T, end *os.File) (inside []string) {
	t.Helper()
	path := buildGo(t, "internal/lab/cable")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	s.orders = write
	t.Cleanup(func() { _ = write.Close() })
	s.cable = startWith(t, nil, func(cmd *exec.Cmd) { cmd.Stdin, cmd.ExtraFiles = read, []*os.File{end} },
		"unshare", "--user", "--map-root-user", "--net", path, "soft0", "0x5eed")
	_ = read.Close()
	s.cable.says("ready\n")
	inside = []string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", itoa(s.cable.cmd.Process.Pid), "--"}
	lines := append([]string{"ip link set soft0 address " + ourMAC}, upLines("soft0", ourAddress4, ourAddress6)...)
	for _, line := range append(lines, neighbourLines("soft0", softMAC, softAddress4, softAddress6)...) {
		start(t, nil, append(inside, strings.Fields(line)...)...).succeeds()
	}
	return inside
}

// upLines are commands that bring a network up. MTU 9000 has room for packets of 4096 bytes.
func upLines(device, address4, address6 string) []string {
	return []string{"ip link set lo up", "ip addr add " + address4 + "/24 dev " + device,
		"ip addr add " + address6 + "/64 nodad dev " + device, "ip link set " + device + " mtu 9000 up"}
}

// neighbourLines are commands that say where the other host is. Soft-RoCE waits for this for 1 s when a
// queue pair goes to RTR. Linux repeats a solicitation that was lost after 1 s, which is too late.
func neighbourLines(device, mac string, addresses ...string) (lines []string) {
	for _, a := range addresses {
		lines = append(lines, "ip neigh replace "+a+" lladdr "+mac+" nud permanent dev "+device)
	}
	return lines
}

// loses sets the share of the RoCE packets that the cable loses from now on, in both directions.
func (s *softRoCE) loses(t *testing.T, share float64) {
	t.Helper()
	said := fmt.Sprintf("loss is %g;", share)
	before := strings.Count(s.cable.said.String(), said)
	_, err := fmt.Fprintf(s.orders, "loss %g\n", share)
	require.NoError(t, err)
	s.cable.until(func(all string) bool { return strings.Count(all, said) > before })
	t.Log(tail(s.cable.said.String()))
}

// softMachine starts a machine with a Soft-RoCE device, rxe0, on the cable.
func softMachine(t *testing.T, kernel vm.Kernel, end *os.File, programs []string) *vm.Machine {
	t.Helper()
	began := time.Now()
	files := vm.Files{"/etc/hosts": {Mode: 0o644, Data: []byte("127.0.0.1 localhost\n")}, "/etc/passwd": {Mode: 0o644, Data: []byte("root:x:0:0::/:\n")}}
	require.NoError(t, files.Init(buildGo(t, "internal/lab/guest")))
	require.NoError(t, files.Load(kernel, softModules...))
	for _, pattern := range openedByPath {
		found, _ := filepath.Glob(pattern)
		require.Len(t, found, 1, pattern)
		programs = append(programs, found...)
	}
	for _, name := range programs {
		_, err := files.Program(name)
		require.NoError(t, err)
	}
	require.NoError(t, files.Copy("/etc/libibverbs.d/rxe.driver"))
	console := &proctest.Output{}
	// The machine lives as long as the whole package may take (-timeout 30m).
	config := vm.Config{Kernel: kernel, Files: files, Seconds: 30 * 60, Console: console,
		Args:    []string{"-netdev", "dgram,id=net,local.type=fd,local.str=3", "-device", "virtio-net-pci,netdev=net,host_mtu=9000,mac=" + softMAC},
		Inherit: []*os.File{end}}
	var m *vm.Machine
	var err error
	started := make(chan struct{})
	go func() {
		defer close(started)
		m, err = vm.Start(t.Context(), config)
	}()
	proctest.Until(t, "the machine is ready", func() bool { return closed(started) }, proctest.Job{Name: "the machine's console", Output: console})
	require.NoError(t, err, "%s", console)
	t.Cleanup(func() {
		m.Close()
		if t.Failed() {
			t.Logf("the machine's console:\n%s", console)
		}
	})
	lines := append(upLines("eth0", softAddress4, softAddress6), neighbourLines("eth0", ourMAC, ourAddress4, ourAddress6)...)
	for _, line := range append(lines, "rdma link add rxe0 type rxe netdev eth0") {
		_, err := m.Run(strings.Fields(line)...)
		require.NoError(t, err)
	}
	t.Logf("the machine is up after %v", time.Since(began).Round(time.Second/10))
	return m
}

// buildGo builds a program of this repository, without C. With -trimpath, as in internal/lab/nodes and
// scripts/release.sh, all of them find packages of each other in Go's cache.
func buildGo(t *testing.T, folder string) string {
	t.Helper()
	return builtOnce(filepath.Base(folder), func(path string) {
		cmd := exec.Command("go", "build", "-trimpath", "-o", path, repository+"/"+folder)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
	})
}

// startIn starts a program in a machine.
func startIn(t *testing.T, m *vm.Machine, argv ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: &exec.Cmd{Path: argv[0], Args: argv}, done: make(chan struct{})}
	there := m.Start(&p.said, argv...)
	p.stop = there.Kill
	go func() {
		p.err = there.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		<-p.done
	})
	return p
}

// wordsOf returns what the words DEVICE, GID4 and GID6 of rows are on a host.
func (l *lab) wordsOf(t *testing.T, device, address4, address6, devinfo string) *strings.Replacer {
	t.Helper()
	index := func(gid string) string {
		at := regexp.MustCompile(`GID\[\s*(\d+)\]:\s*` + gid + `, RoCE v2`).FindStringSubmatch(devinfo)
		require.NotNil(t, at, "no GID %s in\n%s", gid, devinfo)
		return at[1]
	}
	require.Regexp(t, `active_mtu:\s+4096`, devinfo)
	return strings.NewReplacer("DEVICE", device, "GID4", index("::ffff:"+address4), "GID6", index(address6))
}

// shows waits until a program in the machine prints what enough says.
func (l *lab) shows(server *process, enough func(said string) bool, argv ...string) {
	l.t.Helper()
	server.awaits("it listens in the machine", func() bool {
		if server.ended() {
			require.FailNow(l.t, "ended", "ended (%v) and does not listen: %v", server.err, server.job())
		}
		return enough(startIn(l.t, l.machine, argv...).succeeds())
	})
}
