//go:build linux && (amd64 || arm64)

package rack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"sync"

	"github.com/nicless/nicless/internal/netns"
)

// A network is a bridge, and hosts that are connected to it. Each is a network namespace, which ends with
// the process that holds it, and that ends when its input does: with this program, however that ends.
//
// The hosts know each other's hardware addresses from the start. All of them are one kernel, whose table of
// neighbours is for all of them together, and has room for 1,024 unless root changes that. On a rack each
// host has a table of its own.
type network struct {
	bridge *holder
	hosts  []*holder
}

// A holder is a process in a network namespace, which does nothing, or what its input says.
type holder struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	first  string // the first line of the output
	errors bytes.Buffer
}

// prefix is that of the hosts' addresses.
var prefix = netip.MustParsePrefix("10.77.0.0/16")

// address is that of a host.
func address(host int) netip.Addr {
	b := prefix.Addr().As4()
	host++ // 10.77.0.0 is the network's
	b[2], b[3] = byte(host>>8), byte(host)
	return netip.AddrFrom4(b)
}

// hardware is the hardware address of a host.
func hardware(host int) string {
	b := address(host).As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// newNetwork makes a network of n hosts.
func newNetwork(n int) (w *network, err error) {
	w = &network{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err = netns.Check(); err != nil {
		return w, err
	}
	w.bridge, err = newHolder(netns.First(hold...))
	if err != nil {
		return w, err
	}
	// The kernel chooses no addresses (addrgenmode), because all hosts would hear of each one.
	lines := "link add bridge type bridge\nlink set bridge addrgenmode none up\n"
	w.hosts = make([]*holder, n)
	err = forAll(n, func(i int) (err error) {
		w.hosts[i], err = newHolder(netns.Next(w.bridge.cmd.Process.Pid, hold...))
		return err
	})
	if err != nil {
		return w, err
	}
	for i, h := range w.hosts {
		lines += fmt.Sprintf("link add port%d type veth peer name net address %s netns %d\n"+
			"link set port%d addrgenmode none master bridge up\n", i, hardware(i), h.cmd.Process.Pid, i)
	}
	if err = w.bridge.ip(lines); err != nil {
		return w, err
	}
	return w, forAll(n, func(i int) error {
		lines := fmt.Sprintf("link set net addrgenmode none up\naddress add %v/%d dev net\n", address(i), prefix.Bits())
		for j := range n {
			if j != i {
				lines += fmt.Sprintf("neighbour add %v lladdr %s dev net nud permanent\n", address(j), hardware(j))
			}
		}
		return w.hosts[i].ip(lines)
	})
}

// forAll calls f with all numbers below n, at one time, and returns the first error.
func forAll(n int, f func(int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// hold is the command line of a holder that does nothing.
var hold = []string{"sh", "-c", "ip link set lo up && echo up && exec cat"}

// newHolder starts a holder, and waits until its namespace is there: then it writes a line.
func newHolder(argv []string) (h *holder, err error) {
	h = &holder{cmd: exec.Command(argv[0], argv[1:]...)}
	h.cmd.Stderr = &h.errors
	h.input, err = h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = h.cmd.Start(); err != nil {
		return nil, err
	}
	h.output = bufio.NewReader(out)
	h.first, err = h.output.ReadString('\n')
	if err != nil {
		h.close()
		return nil, fmt.Errorf("%v: %w: %s%s", h.cmd, err, h.first, &h.errors)
	}
	return h, nil
}

// ip gives the program ip lines to work through, in the namespace.
func (h *holder) ip(lines string) error {
	argv := h.argv("ip", "-batch", "-")
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(lines)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, said)
	}
	return nil
}

// argv is the command line of a program in the namespace, which is killed when this program ends. The program
// has to ask for that in the namespace: a process that enters a user namespace forgets it.
func (h *holder) argv(argv ...string) []string {
	return netns.In(h.cmd.Process.Pid, append([]string{"setpriv", "--pdeathsig", "KILL", "--"}, argv...)...)
}

func (h *holder) close() {
	_ = h.input.Close()
	_ = h.cmd.Wait()
}

// close ends the hosts and their network.
func (w *network) close() {
	for _, h := range w.hosts {
		if h != nil { // its start has not failed
			h.close()
		}
	}
	if w.bridge != nil {
		w.bridge.close()
	}
}
