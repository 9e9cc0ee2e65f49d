//go:build !plan9

package control

import "syscall"

// Unwrap returns the errno of a refusal by a rule of faults, nil for other refusals: errors.Is(err,
// syscall.ENOMEM). The number is that of Linux, as clients and devices are.
func (e *Error) Unwrap() error {
	if n := e.Code.Errno(); n != 0 {
		return syscall.Errno(n)
	}
	return nil
}
