//go:build linux && (amd64 || arm64)

package object

import (
	"os"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/shm"
)

// The objects that a client makes take memory of the device's process. Each object is charged
// to the client's user when it is made, with the most memory that it can ever take. So no
// client can fill the device with objects for which no user is charged.

// These constants are the memory that objects take, in bytes. They include what tables and
// the garbage collector add.
const (
	clientCost = 192 << 10 // its goroutine, its ring of reasons, and answers that it has not read (server)
	PDCost     = 128
	RegionCost = 512
	KeyCost    = 512
	RunCost    = 64 // an entry of a list
	CQCost     = 1 << 10
	SrqCost    = 1 << 10
	EntryCost  = 2        // for each entry of an SRQ, because transfers may put all entries back unused
	QPCost     = 10 << 10 // mostly for the job that a queue pair may have; see also QP.Cost
	WireCost   = 40 << 10 // of a queue pair on a link beyond QPCost: messages on the way, and up to four jobs
	SocketCost = 216 << 10
)

// EventBuffer is the size in bytes that is set for the send buffer of an event socket. The
// kernel allows twice as much. The buffer holds the events that a client has not read.
const EventBuffer = 104 << 10

func (k *Mkey) Cost() int { return KeyCost + k.Room*RunCost }

func (s *SRQ) Cost() int { return SrqCost + (int(s.Mask)+1)*EntryCost }

// ClientCharge is what a client needs to exist: a connection and two pages.
var ClientCharge = quota.Charge{quota.Mappings: 2, quota.Descriptors: 2, quota.Connections: 1,
	quota.Memory: clientCost}

// SocketCharge is what an event socket takes.
var SocketCharge = quota.Charge{quota.Descriptors: 1, quota.Memory: SocketCost}

// Refund refunds the memory of an object that is gone.
func (c *Client) Refund(cost int) { c.Device.Ledger.Refund(c.UID, quota.Charge{quota.Memory: cost}) }

// RegionCharge is what a region of size bytes costs the device's process, charged to user
// uid. The region's bytes are not counted for the device's own user, because the system's own
// limits hold for that user anyway.
func RegionCharge(uid uint32, size int) quota.Charge {
	fds, pages := shm.HoldCost(size)
	b := quota.Charge{quota.Mappings: 1, quota.AddressSpace: size, quota.Memory: RegionCost,
		quota.Descriptors: fds, quota.PipePages: pages, quota.HeldBytes: shm.HoldBytes(size)}
	if uid != uint32(os.Getuid()) {
		b[quota.RegionBytes] = size
	}
	return b
}

// RegionFile is the charge for the descriptor of a region. The descriptor is open until the
// client has placed the region.
var RegionFile = quota.Charge{quota.Descriptors: 1}
