package verbs

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

const pageSize = 4096

const (
	eINVAL          = unix.EINVAL
	eFAULT          = unix.EFAULT
	eNOMEM          = unix.ENOMEM
	eBUSY           = unix.EBUSY
	eNOENT          = unix.ENOENT
	eBADF           = unix.EBADF
	eNOSPC          = unix.ENOSPC
	eNODATA         = unix.ENODATA
	eIO             = unix.EIO
	eOPNOTSUPP      = unix.EOPNOTSUPP
	ePROTONOSUPPORT = unix.EPROTONOSUPPORT
)

// A refusal is what a program gets as a number, and the log as a sentence.
type refusal struct {
	errno unix.Errno
	text  string
	quiet bool // programs ask for it to learn that it is refused
}

func (r *refusal) Error() string { return r.text }

func refuse(errno unix.Errno, format string, args ...any) error {
	return &refusal{errno: errno, text: fmt.Sprintf(format, args...)}
}

// expected is refuse for what ordinary programs do, to learn the answer.
func expected(errno unix.Errno, format string, args ...any) error {
	return &refusal{errno: errno, text: fmt.Sprintf(format, args...), quiet: true}
}

// errAgain is not an error: the shim has something to do first.
var errAgain = errors.New("needs are not met yet")

// refusalOf makes a refusal of any error; those of the device have a code.
func refusalOf(err error) *refusal {
	var r *refusal
	var c *control.Error
	switch {
	case errors.As(err, &r):
		return r
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
}
