//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// longestOption is the most bytes of an option: six paths.
const longestOption = 6 * abi.PathRecDataSize

// An option is something that a program can set for an id.
type option struct {
	name string
	size int // 0: any
	set  func(i *id, v []byte) error
}

// options are by level and number.
var options = map[[2]uint32]option{
	{abi.CMOptionLevelID, abi.CMOptionTOS}:        {"TOS", 1, (*id).setTOS},
	{abi.CMOptionLevelID, abi.CMOptionReuseAddr}:  {"REUSEADDR", 4, (*id).setReuse},
	{abi.CMOptionLevelID, abi.CMOptionAFOnly}:     {"AFONLY", 4, (*id).setOnly},
	{abi.CMOptionLevelID, abi.CMOptionAckTimeout}: {"ACK_TIMEOUT", 1, (*id).setTimeout},
	{abi.CMOptionLevelIB, abi.CMOptionIBPath}:     {"IB_PATH", 0, (*id).setPath},
}

// setOption serves SET_OPTION. The request is struct rdma_ucm_set_option.
func (m *Manager) setOption(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMSetOptionID:]))
	if err != nil {
		return err
	}
	level, name := le.Uint32(req[abi.CMSetOptionLevel:]), le.Uint32(req[abi.CMSetOptionOptname:])
	length := le.Uint32(req[abi.CMSetOptionOptlen:])
	o, ok := options[[2]uint32{level, name}]
	switch {
	case !ok:
		return expected(unix.ENOSYS, "SET_OPTION: option %d of level %d", name, level)
	case o.size != 0 && length != uint32(o.size), length == 0, length > longestOption:
		return refuse(unix.EINVAL, "SET_OPTION: %s with %d bytes", o.name, length)
	}
	v, err := c.result(Need{Kind: NeedBytes, Addr: le.Uint64(req[abi.CMSetOptionOptval:]),
		Length: uint64(length)})
	switch {
	case err != nil:
		return err
	case v.Errno != 0:
		return refuse(v.Errno, "SET_OPTION: %s: its value cannot be read: %v", o.name, v.Errno)
	case len(v.Bytes) != int(length):
		return refuse(unix.EFAULT, "SET_OPTION: %s: %d of %d bytes", o.name, len(v.Bytes), length)
	}
	return o.set(i, v.Bytes)
}

func (i *id) setTOS(v []byte) error {
	i.service = v[0]
	return nil
}

func (i *id) setReuse(v []byte) error {
	on := le.Uint32(v) != 0
	if !(on && i.state != listening || i.state == idle) {
		return refuse(unix.EINVAL, "SET_OPTION: REUSEADDR: id %d is %v", i.handle, i.state)
	}
	i.reuse = on
	i.reindex()
	return nil
}

func (i *id) setOnly(v []byte) error {
	if i.state != idle && i.state != bound {
		return refuse(unix.EINVAL, "SET_OPTION: AFONLY: id %d is %v", i.handle, i.state)
	}
	i.only, i.onlySet = le.Uint32(v) != 0, true
	i.reindex()
	return nil
}

func (i *id) setTimeout(v []byte) error {
	if i.datagram() {
		return refuse(unix.EINVAL, "SET_OPTION: ACK_TIMEOUT: datagrams are not acknowledged")
	}
	i.timeout = v[0] & 31
	return nil
}

// setPath takes the path that a program has found in place of RESOLVE_ROUTE. Here there is only
// one path, so nothing of it is used.
func (i *id) setPath(v []byte) error {
	if len(v)%abi.PathRecDataSize != 0 {
		return refuse(unix.EINVAL, "SET_OPTION: paths of %d bytes; each has %d", len(v), abi.PathRecDataSize)
	}
	for ; len(v) > 0; v = v[abi.PathRecDataSize:] {
		if le.Uint32(v[abi.PathRecDataFlags:]) == pathFlags {
			break
		}
	}
	if len(v) == 0 {
		return refuse(unix.EINVAL, "SET_OPTION: no path is primary and bidirectional")
	}
	if err := i.checkState(stepPath); err != nil {
		return err
	}
	i.state = stepPath.to
	i.notifyStatus(routeResolved, 0)
	return nil
}
