//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"os"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// ioctl serves NV_IOCTL: one ioctl of a program.
func (p *process) ioctl(h wireHeader, b []byte, files []nic.File) ([]byte, []*os.File, error) {
	head, attrs, results, err := parseIoctl(b)
	if err != nil {
		return nil, nil, err
	}
	x, err := p.context(h)
	if err != nil {
		return nil, nil, err
	}
	if len(results) == 0 {
		p.dropPending() // pending extents of an earlier call, which the shim never repeated
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil, nil, refuse(eIO, "the context has ended")
	}
	c := &call{p: p, x: x, results: results, files: files}
	err = c.serve(head, attrs)
	c.trace(err)
	if errors.Is(err, errAgain) {
		out := appendAnswer(nil, h, flagAgain, 0)
		out = le.AppendUint64(out, uint64(len(c.needs)))
		for i := range c.needs {
			out = c.needs[i].append(out)
		}
		lent, err := duplicates(c.lent)
		return out, lent, err
	}
	p.past.note(c, err)
	if err != nil {
		_ = closeFiles(c.give...)
		r := refusalOf(err)
		p.reportRefusal(c.withCommand(r), "call", c.name())
		if r.out == nil {
			return appendAnswer(nil, h, 0, int32(r.errno)), nil, nil
		}
		c.outs = nil
		c.put(c.method.output(), r.out)
		return c.appendOuts(appendAnswer(nil, h, flagFailed, int32(r.errno))), nil, nil
	}
	c.giveBack()
	return c.appendOuts(appendAnswer(nil, h, 0, 0)), c.give, nil
}

// appendOuts appends what the shim writes to the program's memory.
func (c *call) appendOuts(answer []byte) []byte {
	answer = le.AppendUint64(answer, uint64(len(c.outs)))
	for i := range c.outs {
		answer = c.outs[i].append(answer)
	}
	return answer
}

// serve runs the method that the header names.
func (c *call) serve(head ioctlHeader, attrs []attr) error {
	c.method = methods[[2]uint16{head.object, head.method}]
	switch {
	case head.driver != abi.DriverMLX5:
		return refuse(eINVAL, "driver %d; this device's is mlx5, %d", head.driver, abi.DriverMLX5)
	case c.method == nil:
		return refuse(ePROTONOSUPPORT, "%s", unserved(head.object, head.method))
	}
	if err := c.check(attrs); err != nil {
		return err
	}
	room := headerSize + 8 + maxBack*(outSize+8)
	for _, a := range c.attrs {
		room += outSize*2 + padded(int(a.length))
	}
	if room > maxDatagram {
		return refuse(unix.E2BIG, "an answer of %d bytes; at most %d are possible", room, maxDatagram)
	}
	return c.method.run(c)
}

// duplicates returns copies of descriptors. The caller has to close them.
func duplicates(files []*os.File) (copies []*os.File, err error) {
	for _, f := range files {
		err := unixsock.Control(f, func(fd int) error {
			d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err == nil {
				copies = append(copies, os.NewFile(uintptr(d), f.Name()))
			}
			return err
		})
		if err != nil {
			_ = closeFiles(copies...)
			return nil, err
		}
	}
	return copies, nil
}
