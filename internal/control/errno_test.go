//go:build linux

package control_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
)

// The errnos of rules have the numbers of the system, and a refusal with one is that errno.
func TestErrnosOfRefusals(t *testing.T) {
	for name, n := range fault.Errnos() {
		if name == "EOPNOTSUPP" { // has two names
			require.EqualValues(t, unix.EOPNOTSUPP, n)
		} else {
			require.Equal(t, name, unix.ErrnoName(unix.Errno(n)))
		}
		err := error(control.Errorf(control.CodeErrno+control.Code(n), "x"))
		require.ErrorIs(t, err, unix.Errno(n))
	}
	require.Equal(t, "errno 12", (control.CodeErrno + 12).String())
	require.NotErrorIs(t, control.Errorf(control.CodeInvalid, "x"), unix.EINVAL)
	require.Nil(t, errors.Unwrap(control.Errorf(control.CodeErrno+4096, "x")))
}
