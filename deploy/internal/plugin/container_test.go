//go:build linux && (amd64 || arm64)

package plugin

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A container is what a container runtime makes: namespaces of its own, and a root with programs of this
// system, in which is mounted what the plugin has answered, and nothing else.
type container struct {
	t      *testing.T
	env    []string
	mounts []mount
	uid    int  // within the container
	host   bool // it has the host's user namespace, as most pods do; for tests that are root
}

// newContainer makes a container of an answer to the kubelet.
func newContainer(t *testing.T, a *api.ContainerAllocateResponse) *container {
	t.Helper()
	c := &container{t: t}
	for name, value := range a.Envs {
		c.env = append(c.env, name+"="+value)
	}
	for _, m := range a.Mounts {
		require.True(t, m.ReadOnly)
		c.mounts = append(c.mounts, mount{container: m.ContainerPath, host: m.HostPath})
	}
	return c
}

// script makes the root at $1 and executes its other arguments there. Only directories that a container of
// Debian has are in it: those of programs, and settings of libibverbs.
const script = `set -e
PATH=$PATH:/usr/sbin:/sbin
root=$1 user=$2
shift 2
mount --make-rprivate /
mount -t tmpfs root "$root"
mkdir -p "$root/usr/lib" "$root/tmp" "$root/proc" "$root/dev" "$root/sys" "$root/etc" "$root/run"
chmod 1777 "$root/tmp"
for d in bin sbin lib lib64; do
	ln -s "usr/$d" "$root/$d"
done
for d in /usr/bin /usr/sbin /usr/lib64 /usr/libexec /usr/lib/*-linux-gnu /etc /dev /sys; do
	mkdir -p "$root$d"
	mount --rbind "$d" "$root$d"
done
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
	mkdir -p "$root$2"
	mount --bind "$1" "$root$2"
	mount -o remount,bind,ro,nosuid,nodev "$root$2"
	shift 2
done
shift
ip link set lo up
[ "$user" = 0 ] || set -- setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
exec chroot "$root" "$@"
`

// command returns the command of a program in the container.
func (c *container) command(program ...string) *exec.Cmd {
	c.t.Helper()
	args := []string{"-c", script, "sh", c.t.TempDir(), strconv.Itoa(c.uid)}
	for _, m := range c.mounts {
		args = append(args, m.host, m.container)
	}
	args = append(args, "--", "/usr/bin/env", "-i", "PATH=/usr/bin:/usr/sbin")
	args = append(append(args, c.env...), program...)
	cmd := exec.CommandContext(await.Context(c.t), "sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	if c.host {
		return cmd
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	if c.uid != 0 {
		ids = append(ids, syscall.SysProcIDMap{ContainerID: c.uid, HostID: c.uid, Size: 1})
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
	cmd.SysProcAttr.GidMappingsEnableSetgroups = c.uid != 0
	return cmd
}

// run runs a program in the container to its end, and returns its output.
func (c *container) run(program ...string) string {
	c.t.Helper()
	out, err := c.command(program...).CombinedOutput()
	require.NoError(c.t, err, "%v: %s", program, out)
	return string(out)
}

// fails runs a program that is to fail, and returns its output.
func (c *container) fails(program ...string) string {
	c.t.Helper()
	out, err := c.command(program...).CombinedOutput()
	require.Error(c.t, err, "%v: %s", program, out)
	return string(out)
}

// A running is a program in a container that waits.
type running struct {
	cmd  *exec.Cmd
	line string // the first line with the words that were awaited
	in   interface{ Close() error }
}

// start starts a program in the container and waits until it prints a line with these words. It runs until
// its input ends, if it reads that, or until end is called.
func (c *container) start(words string, program ...string) *running {
	c.t.Helper()
	cmd := c.command(program...)
	in, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	said := new(bytes.Buffer)
	cmd.Stderr = said
	require.NoError(c.t, cmd.Start())
	r := &running{cmd: cmd, in: in}
	c.t.Cleanup(r.end)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), words) {
			r.line = lines.Text()
			return r
		}
	}
	_ = cmd.Wait()
	require.Fail(c.t, "the program has ended", "%v has not said %q: %s", program, words, said)
	return r
}

// end ends the container with its program.
func (r *running) end() {
	_ = r.in.Close()
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}
