package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nicless/nicless/internal/nearest"
)

// calls has the requests that rules can refuse: those of docs/CONTROL.md without set_faults and query_fault:
// rules do not keep their owner from ending them.
var calls = []string{
	"hello", "alloc_pd", "dealloc_pd", "create_region", "drop_region", "reg_mr", "dereg_mr",
	"create_channel", "destroy_channel", "create_cq", "destroy_cq", "create_qp", "modify_qp", "query_qp",
	"destroy_qp", "create_srq", "modify_srq", "query_srq", "destroy_srq", "resize_cq", "alloc_mw",
	"create_mkey", "rereg_mr", "open_events", "wake", "place_region", "open_xrcd", "close_xrcd",
	"create_xsrq", "create_target", "open_target", "create_dct", "address", "set_peer", "announce",
	"next_announcement", "announce_to", "watch", "query_port", "open_box", "send_message",
	"next_message", "next_change",
}

// errnos has the errors with which a kernel and its drivers refuse calls of verbs, by their numbers on Linux
// (include/uapi/asm-generic/errno.h), whichever system reads the rules.
var errnos = map[string]int{
	"EPERM": 1, "ENOENT": 2, "EINTR": 4, "EIO": 5, "ENXIO": 6, "E2BIG": 7, "EBADF": 9, "EAGAIN": 11,
	"ENOMEM": 12, "EACCES": 13, "EFAULT": 14, "EBUSY": 16, "EEXIST": 17, "ENODEV": 19, "EINVAL": 22,
	"ENFILE": 23, "EMFILE": 24, "ENOTTY": 25, "EFBIG": 27, "ENOSPC": 28, "ERANGE": 34, "ENOSYS": 38,
	"ENODATA": 61, "EPROTO": 71, "EBADMSG": 74, "EOVERFLOW": 75, "EMSGSIZE": 90, "EPROTONOSUPPORT": 93,
	"EOPNOTSUPP": 95, "EADDRINUSE": 98, "EADDRNOTAVAIL": 99, "ENETUNREACH": 101, "ECONNABORTED": 103,
	"ECONNRESET": 104, "ENOBUFS": 105, "ETIMEDOUT": 110, "ECONNREFUSED": 111, "EHOSTUNREACH": 113,
	"EALREADY": 114, "ESTALE": 116, "EREMOTEIO": 121, "EDQUOT": 122, "ECANCELED": 125,
}

// Calls returns the names of the requests that rules can refuse.
func Calls() []string { return slices.Clone(calls) }

// Errnos returns the errors with which rules can refuse requests, and their numbers on Linux.
func Errnos() map[string]int {
	all := make(map[string]int, len(errnos))
	for name, n := range errnos {
		all[name] = n
	}
	return all
}

// Number returns the number on Linux of the error with which requests are refused; 0 if there is no such
// error.
func (r *Refuse) Number() int { return errnos[r.Errno] }

// check says what is wrong with the names: with both of them, joined.
func (r *Refuse) check() error {
	var all []error
	if r.Call == "" || r.Errno == "" {
		all = append(all, errors.New("refuse: needs a call, such as create_qp, and an errno, such as ENOMEM"))
	}
	if r.Call != "" && !slices.Contains(calls, r.Call) {
		all = append(all, fmt.Errorf("refuse: call %.63q is none that can be refused%s", r.Call, nearest.Hint(r.Call, calls)))
	}
	if r.Errno != "" && errnos[r.Errno] == 0 {
		names := slices.Sorted(maps.Keys(errnos))
		all = append(all, fmt.Errorf("refuse: errno %.63q is none of those of calls%s", r.Errno, nearest.Hint(r.Errno, names)))
	}
	return errors.Join(all...)
}
