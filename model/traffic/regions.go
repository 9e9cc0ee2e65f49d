package traffic

import (
	"fmt"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/model"
)

// The names of the regions of a trace, apart from those of registered memory.
const (
	SendRing   = "sq"
	RecvRing   = "rq" // also the ring of an SRQ
	SendCQ     = "scq"
	RecvCQ     = "rcq"
	HostRecord = "db.host"
	PeerRecord = "db.peer"
	SRQRecord  = "db.srq"
	SendCI     = "ci.host"
	RecvCI     = "ci.peer"
	Registers  = "uar"      // the UAR page of the host's queues
	PeerPage   = "uar.peer" // the UAR page of the peer's queues
	KeyTable   = "keys"
)

// A Memory is registered memory that requests name. Each Memory is a region of the trace.
type Memory struct {
	Region    string // name of the region
	Structure model.Structure
	Key       uint32 // lkey and rkey
	Addr      uint64 // address of the first byte, as requests give it; a multiple of 64
	Size      uint64
}

// A key is a Memory with the index of the memory's key in the key table.
type key struct {
	*Memory
	index int
}

// makeRegions fills the trace's table of regions and the table of keys.
func (x *Expander) makeRegions() error {
	c := &x.c
	x.trace.Regions = map[string]model.Structure{
		SendRing: model.SQ, SendCQ: model.CQ, HostRecord: model.Records, PeerRecord: model.Records,
		SendCI: model.Records, Registers: model.UARs, KeyTable: model.Keys, RecvRing: model.RQ,
		RecvCQ: model.CQ, RecvCI: model.Records,
	}
	if c.SRQ {
		x.trace.Regions[SRQRecord] = model.Records
	}
	if c.Events {
		x.trace.Regions[PeerPage] = model.UARs
	}
	for i := range c.Memory {
		m := &c.Memory[i]
		_, taken := x.trace.Regions[m.Region]
		if taken || m.Region == "" || m.Addr%model.LineSize != 0 || x.keys[m.Key] != nil ||
			m.Addr+m.Size < m.Addr {
			return fmt.Errorf("traffic: memory %q of %d bytes at %#x with key %#x; names and keys must differ, and addresses be multiples of %d",
				m.Region, m.Size, m.Addr, m.Key, model.LineSize)
		}
		x.trace.Regions[m.Region] = m.Structure
		x.keys[m.Key] = &key{m, i}
	}
	return nil
}

const (
	firstRegister = doorbell.BFOffset / line  // index of the UAR page's line where the registers begin
	registerLines = doorbell.BFRegSize / line // number of lines of a register
	halfLines     = doorbell.BFHalf / line    // number of lines of half a register
)

// receiveRecord returns the region of the record that counts the receives.
func (x *Expander) receiveRecord() string {
	if x.c.SRQ {
		return SRQRecord
	}
	return PeerRecord
}

// registerLine returns the index of the first line of one half of the host's register. A queue pair
// without a BlueFlame register rings in the first register.
func (x *Expander) registerLine(half int) int {
	register := max(x.c.BlueFlame-1, 0)
	return firstRegister + register*registerLines + half*halfLines
}
