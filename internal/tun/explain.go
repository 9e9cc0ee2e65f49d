//go:build linux && (amd64 || arm64)

package tun

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// explainDevice says why /dev/net/tun cannot be opened.
func explainDevice(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("tun: there is no /dev/net/tun: run modprobe tun as root, or start the container with --device /dev/net/tun (%w)", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("tun: /dev/net/tun may not be opened by this user: run chmod 666 /dev/net/tun as root, or start the container with --device /dev/net/tun (%w)", err)
	}
	return fmt.Errorf("tun: /dev/net/tun: %w", err)
}

// explainAttach says why the interface could not be made, or taken. before is the interface that
// had the name.
func explainAttach(c Config, before netlink.Link, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("tun: interface %s is used by another process: end it, or choose another name (%w)", c.Name, err)
	case errors.Is(err, unix.EINVAL) && before != nil && before.Type() != "tuntap" && before.Type() != "tun":
		return fmt.Errorf("tun: interface %s exists, and is not a TUN: choose another name (%w)", c.Name, err)
	case errors.Is(err, unix.EINVAL) && before != nil:
		return fmt.Errorf("tun: interface %s exists, and is not a TUN with one queue: make it with ip tuntap add dev %s mode tun, without multi_queue (%w)", c.Name, c.Name, err)
	case errors.Is(err, unix.EPERM) && before != nil:
		return fmt.Errorf("tun: interface %s exists and belongs to another user: run as root (%w)\n  ip link delete %s && %s", c.Name, err, c.Name, asRoot(c))
	case errors.Is(err, unix.EPERM):
		explained := fmt.Errorf("tun: interface %s: making it needs the capability CAP_NET_ADMIN (%w). Either run this in a network namespace of your own, with\n"+
			"  unshare --user --map-root-user --net COMMAND\nor let root make the interface for you once, with\n  %s", c.Name, err, asRoot(c))
		if restricted := UserNamespaces(); restricted != nil {
			return fmt.Errorf("%w\n%w", explained, restricted)
		}
		return explained
	}
	return fmt.Errorf("tun: interface %s: TUNSETIFF: %w", c.Name, err)
}

// explainGone says that the interface was deleted.
func explainGone(name string, err error) error {
	return fmt.Errorf("tun: interface %s is gone: somebody has deleted it (%w)", name, err)
}

// asRoot returns the commands by which root makes the interface for this user.
func asRoot(c Config) string {
	all := []string{
		fmt.Sprintf("ip tuntap add dev %s mode tun user %d", c.Name, os.Geteuid()),
		fmt.Sprintf("ip link set dev %s mtu %d up", c.Name, c.MTU),
	}
	for _, p := range c.Addresses {
		all = append(all, addressCommand(c, p))
	}
	return strings.Join(all, " && ")
}

func addressCommand(c Config, p netip.Prefix) string {
	command := fmt.Sprintf("ip address add %v dev %s", p, c.Name)
	if p.Addr().Is6() {
		command += " nodad"
	}
	return command
}

// explainSetup names the command that root has to run, if this process may not change the interface.
func explainSetup(c Config, is, command string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("tun: interface %s %s, and this process may not change it: run as root (%w)\n  %s", c.Name, is, err, command)
	}
	return fmt.Errorf("tun: interface %s %s: %s: %w", c.Name, is, command, err)
}

func explainAddress(c Config, p netip.Prefix, err error) error {
	off := p.Addr().Is6() && off6(c.Name)
	switch {
	case off:
		return fmt.Errorf("tun: address %v: IPv6 is turned off here: run sysctl -w net.ipv6.conf.default.disable_ipv6=0, or start the container with --sysctl net.ipv6.conf.default.disable_ipv6=0 (%w)", p, err)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("tun: address %v is taken: the interface has it already (%w)", p, err)
	}
	return explainSetup(c, "lacks the address "+p.String(), addressCommand(c, p), err)
}

// off6 reports whether the interface can have no address of IPv6.
func off6(name string) bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6")
	return err != nil || strings.TrimSpace(string(b)) != "0"
}

// UserNamespaces returns an error that says which setting of this system keeps users from having
// a network namespace of their own; nil if no known setting does.
func UserNamespaces() error {
	return restriction(func(name string) string {
		b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	})
}

// restrictions are the settings that distributions have, with the value that restricts and the one that does
// not.
var restrictions = []struct{ name, bad, good, who string }{
	{"user.max_user_namespaces", "0", "10000", "Red Hat Enterprise Linux and others"},
	{"kernel.unprivileged_userns_clone", "0", "1", "Debian"},
	{"kernel.apparmor_restrict_unprivileged_userns", "1", "0", "Ubuntu 24.04"},
}

func restriction(value func(name string) string) error {
	for _, r := range restrictions {
		if value(r.name) == r.bad {
			return fmt.Errorf("tun: this system restricts user namespaces: %s is %s. Run sysctl -w %s=%s as root (%s)", r.name, r.bad, r.name, r.good, r.who)
		}
	}
	return nil
}
