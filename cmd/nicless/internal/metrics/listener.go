//go:build linux && (amd64 || arm64)

package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// An AddressError says why an address cannot be listened at.
type AddressError struct {
	Address string
	Err     error
	Hint    string // what the user can do
}

func (e *AddressError) Error() string { return fmt.Sprintf("%s: %v", e.Address, e.Err) }
func (e *AddressError) Unwrap() error { return e.Err }

// ErrAddress is the cause of an AddressError for a text that is no address.
var ErrAddress = errors.New("no address: host and port are needed, such as 127.0.0.1:9464")

// Listen listens at an address, host:port. Port 0 is any free port. Without a host it is the loopback
// address: metrics name programs, so other hosts see them only if an address of this host, or 0.0.0.0, is
// named. Its error is an *AddressError.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil {
		return nil, &AddressError{address, ErrAddress, "the port is a number from 0 to 65535; 0 is any free one"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(n, 10)))
	if err != nil {
		return nil, &AddressError{address, cause(err), hint(err, n)}
	}
	return l, nil
}

// cause is what the kernel or the resolver said, without the address, which an AddressError has.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func hint(err error, port uint64) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("another engine or exporter may have the port: ss -ltnp 'sport = :%d' shows it; port 0 is any free one", port)
	case errors.Is(err, fs.ErrPermission):
		return "ports below 1024 need privileges; 9464 does not"
	}
	return "name an address of this host: ip address lists them; 127.0.0.1 is for this host only"
}

// onlyHere reports whether a listener can be reached from this host only.
func onlyHere(l net.Listener) bool {
	at, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && at.Addr().IsLoopback()
}
