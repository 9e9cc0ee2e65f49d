//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/cm"
	"golang.org/x/sys/unix"
)

const pageSize = 4096

const (
	ePERM           = unix.EPERM
	eINVAL          = unix.EINVAL
	eFAULT          = unix.EFAULT
	eNOMEM          = unix.ENOMEM
	eBUSY           = unix.EBUSY
	eNOENT          = unix.ENOENT
	eAGAIN          = unix.EAGAIN
	eBADF           = unix.EBADF
	eNOSPC          = unix.ENOSPC
	eNODATA         = unix.ENODATA
	eIO             = unix.EIO
	eOPNOTSUPP      = unix.EOPNOTSUPP
	eREMOTEIO       = unix.EREMOTEIO
	ePROTONOSUPPORT = unix.EPROTONOSUPPORT
)

// errnoName returns the name of an errno. Of the two names of 95 it is the one that the manual
// pages of libibverbs use.
func errnoName(e unix.Errno) string {
	if e == eOPNOTSUPP {
		return "EOPNOTSUPP"
	}
	return unix.ErrnoName(e)
}

// A refusal is an error for a program. The program gets the number, and the log gets the
// sentence.
type refusal struct {
	errno unix.Errno
	text  string
	quiet bool   // ordinary programs cause this refusal when they probe for a feature
	out   []byte // the answer of a firmware command that failed (firmwareError); otherwise nil
}

func (r *refusal) Error() string { return r.text }

func refuse(errno unix.Errno, format string, args ...any) error {
	return &refusal{errno: errno, text: fmt.Sprintf(format, args...)}
}

// expected does the same as refuse, for a call that ordinary programs make to probe for a
// feature. The refusal is logged only at level debug.
func expected(errno unix.Errno, format string, args ...any) error {
	return &refusal{errno: errno, text: fmt.Sprintf(format, args...), quiet: true}
}

// errAgain ends a call that the shim has to repeat after it has satisfied the needs. It is no
// failure.
var errAgain = errors.New("needs are not met yet")

// refusalOf turns any error into a refusal. An error of the engine has a code, which decides
// the errno.
func refusalOf(err error) *refusal {
	var r *refusal
	var c *control.Error
	var m *cm.Refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &m):
		return &refusal{errno: m.Errno, text: m.Text, quiet: m.Quiet}
	case errors.As(err, &c) && c.Code.Errno() != 0: // a rule of faults says which
		return &refusal{errno: unix.Errno(c.Code.Errno()), text: c.Text}
	case errors.As(err, &c):
		return &refusal{errno: errnos[c.Code], text: c.Text}
	}
	return &refusal{errno: eIO, text: err.Error()}
}

var errnos = map[control.Code]unix.Errno{
	control.CodeInvalid:     eINVAL,
	control.CodeNotFound:    eNOENT,
	control.CodeBusy:        eBUSY,
	control.CodeLimit:       eNOMEM,
	control.CodeState:       eINVAL,
	control.CodeVersion:     eINVAL,
	control.CodeUnsupported: eOPNOTSUPP,
	control.CodeMemory:      eNOMEM,
	control.CodeDenied:      ePERM,
}
