package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/nicless/nicless"
	"github.com/spf13/cobra"
)

// A hinted error is an error with a line that says what the user can do.
type hinted struct {
	err   error
	hint  string
	usage bool // the command line is wrong

	status int // exit status; 0: 2 if usage is set, otherwise 1
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// usagef returns an error, with a hint, for a command line that is wrong.
func usagef(hint, format string, args ...any) error {
	return &hinted{err: fmt.Errorf(format, args...), hint: hint, usage: true}
}

// hintf returns an error, with a hint, that is not about the command line.
func hintf(hint, format string, args ...any) error {
	return &hinted{err: fmt.Errorf(format, args...), hint: hint}
}

// errSilentUsage is returned after the usage text has been printed.
var errSilentUsage = &hinted{usage: true}

// complain prints an error and returns its exit status.
func complain(w io.Writer, err error) (status int) {
	h := &hinted{err: err, hint: hintFor(err)}
	errors.As(err, &h)
	if h.err != nil {
		fmt.Fprintf(w, "nicless: error: %s\n", strings.TrimPrefix(err.Error(), "nicless: "))
	}
	if h.hint != "" {
		fmt.Fprintf(w, "nicless: hint: %s\n", h.hint)
	}
	switch {
	case h.status != 0:
		return h.status
	case h.usage:
		return 2
	}
	return 1
}

// hintFor returns a hint for an error from another package, or "".
func hintFor(err error) string {
	var dial *net.OpError
	isDial := errors.As(err, &dial) && dial.Op == "dial" // not a file, or /dev/net/tun
	switch {
	case errors.Is(err, nicless.ErrDeviceGone):
		return "the engine has ended or does not answer; its standard error may say why"
	case errors.Is(err, nicless.ErrVersion):
		return "the engine and this command are of different versions; see \"nicless version\""
	case isDial && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)):
		return "start an engine: nicless engine --socket PATH"
	case isDial && errors.Is(err, fs.ErrPermission):
		return "the mode of the socket decides who may connect: nicless engine --mode"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		return "ulimit -a shows the limits of this process"
	}
	return ""
}

// noArguments returns an error if there are arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(fmt.Sprintf("\"%s --help\" lists the flags", c.CommandPath()),
			"%s takes no argument, %q was given", c.CommandPath(), args[0])
	}
	return nil
}
