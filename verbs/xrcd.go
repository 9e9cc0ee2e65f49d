//go:build linux && (amd64 || arm64)

package verbs

import (
	"sync"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// XRC domains. Programs that open a domain with the same file share the domain, as in the
// kernel (ib_uverbs_open_xrcd in drivers/infiniband/core/uverbs_cmd.c): a program that can open
// the file may share the domain.

// An xrcd is an open domain.
type xrcd struct {
	*object
	number uint32
	file   *fileIdentity // nil: the domain is not shared
}

// A fileIdentity identifies a file, and the device on which programs share a domain by it. The
// kernel keeps the inode of the file. This server does not, so the time at which the file was
// made distinguishes it from a later file with the same inode number.
type fileIdentity struct {
	device   *device
	dev, ino uint64
	born     unix.StatxTimestamp
}

// sharedDomains has the shared domains of all programs, and the targets in all domains, which are
// the queue pairs of type XRC_RECV. A user of a domain is an xrcd.
type sharedDomains struct {
	mu      sync.Mutex
	all     map[fileIdentity]*sharedDomain
	targets map[uint32]*target // by number
}

type sharedDomain struct {
	number uint32 // the engine's
	users  int
}

// openXRCD serves OPEN_XRCD. The request is struct ib_uverbs_open_xrcd.
func openXRCD(c *call, req []byte) error {
	fd, flags := int32(le.Uint32(req[abi.OpenXRCDFD:])), le.Uint32(req[abi.OpenXRCDOflags:])
	d := new(xrcd)
	if fd != -1 {
		var err error
		d.file, err = c.identify(fd)
		if err != nil {
			return err
		}
	}
	x := c.x
	if err := x.chargeObject(); err != nil {
		return err
	}
	if err := x.joinDomain(d, flags); err != nil {
		x.refundObject()
		return err
	}
	d.object = x.add(kindXRCD, d, func() error {
		if err := x.command(control.OpCloseXRCD, &control.XRCD{XRCDN: d.number}); err != nil {
			return err
		}
		x.s.domains.leave(d)
		return nil
	}, nil)
	c.put32(abi.AttrCoreOut, d.handle) // struct ib_uverbs_open_xrcd_resp
	return nil
}

// identify returns the identity of the file that a descriptor of the program is for.
func (c *call) identify(fd int32) (*fileIdentity, error) {
	f, err := c.fileNumber(fd)
	if err != nil {
		return nil, err
	}
	var st unix.Statx_t
	errs := make(chan error, 1)
	// Asking about a file of a network or of a program can take long, even with AT_STATX_DONT_SYNC.
	if !c.x.s.engine.Aside(c.p.uid, func() {
		errs <- unixsock.Control(f, func(fd int) error {
			return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC,
				unix.STATX_INO|unix.STATX_BTIME, &st)
		})
	}) {
		return nil, refuse(eAGAIN, "descriptor %d: its file system does not answer", fd)
	}
	if err := <-errs; err != nil {
		return nil, refuse(eBADF, "descriptor %d: %v", fd, err)
	}
	return &fileIdentity{c.x.device, unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime}, nil
}

// joinDomain opens a domain of the engine for d: a new one, or the one that other programs have
// opened by the same file.
func (x *uctx) joinDomain(d *xrcd, flags uint32) error {
	all := &x.s.domains
	all.mu.Lock()
	defer all.mu.Unlock()
	var shared *sharedDomain
	if d.file != nil {
		shared = all.all[*d.file]
		switch {
		case shared == nil && flags&unix.O_CREAT == 0:
			return refuse(eAGAIN, "XRC domain: nobody has opened one by this file, and oflags %#x lack O_CREAT", flags)
		case shared != nil && flags&unix.O_EXCL != 0:
			return refuse(eINVAL, "XRC domain: one has been opened by this file, and oflags %#x have O_EXCL", flags)
		}
	}
	if shared != nil {
		if err := x.client.JoinXRCD(shared.number); err != nil {
			return err
		}
		d.number = shared.number
		shared.users++
		return nil
	}
	m, _, err := x.request(control.OpOpenXRCD, &control.Empty{})
	if err != nil {
		return err
	}
	d.number = m.(*control.XRCD).XRCDN
	if d.file != nil {
		if all.all == nil {
			all.all = make(map[fileIdentity]*sharedDomain)
		}
		all.all[*d.file] = &sharedDomain{d.number, 1}
	}
	return nil
}

// leave is called when d is closed.
func (all *sharedDomains) leave(d *xrcd) {
	if d.file == nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	shared := all.all[*d.file]
	shared.users--
	if shared.users == 0 {
		delete(all.all, *d.file)
	}
}

// leaveDomains is called before the context ends: programs that open a domain by the same file
// from then on do not find one that is about to end.
func (x *uctx) leaveDomains() {
	for _, o := range x.objects {
		if d, ok := o.self.(*xrcd); ok {
			x.s.domains.leave(d)
		}
	}
}
