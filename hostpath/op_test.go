package hostpath

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// makeOps derives these facts from the facts of the opcodes.
func TestOps(t *testing.T) {
	const (
		raddr = 1 << iota
		payload
		message
		inline
		imm
		nextFence
	)
	const (
		rc  = wqe.Transports(1 << RC)
		all = connected | 1<<UD
	)
	want := [numOps]struct {
		transports, short wqe.Transports
		facts             int
		wc                cqe.WCOpcode
	}{
		OpNop:               {all, 0, 0, cqe.WCFromPost},
		OpWrite:             {connected, connected, raddr | payload | inline, cqe.WCRDMAWrite},
		OpWriteImm:          {connected, connected, raddr | payload | inline | imm, cqe.WCRDMAWrite},
		OpRead:              {rc, rc, raddr | payload, cqe.WCRDMARead},
		OpSend:              {all, connected, payload | message | inline, cqe.WCSend},
		OpSendImm:           {all, connected, payload | message | inline | imm, cqe.WCSend},
		OpSendInval:         {connected, 0, payload | inline, cqe.WCSend},
		OpCompareSwap:       {rc, rc, raddr | payload, cqe.WCCompSwap},
		OpFetchAdd:          {rc, rc, raddr | payload, cqe.WCFetchAdd},
		OpLocalInval:        {connected, 0, nextFence, cqe.WCLocalInv},
		OpBindMW:            {connected, 0, nextFence, cqe.WCBindMW},
		OpMaskedCompareSwap: {rc, 0, raddr | payload, cqe.WCCompSwap},
		OpMaskedFetchAdd:    {rc, 0, raddr | payload, cqe.WCFetchAdd},
		OpBindList:          {connected, 0, nextFence, cqe.WCFromPost},
		OpDump:              {all, 0, payload, cqe.WCFromPost},
		OpCopy:              {all, 0, payload, cqe.WCFromPost},
		OpWaitCQ:            {all, 0, 0, cqe.WCFromPost},
		OpSendEnable:        {all, 0, 0, cqe.WCFromPost},
	}
	for op := range numOps {
		o, facts := &ops[op], 0
		for _, f := range []struct {
			has bool
			bit int
		}{
			{o.raddr, raddr}, {o.payload, payload}, {o.message, message}, {o.inline, inline},
			{o.imm == 1<<32-1, imm}, {o.nextFence == wqe.FenceSmall, nextFence},
		} {
			if f.has {
				facts |= f.bit
			}
		}
		assert.Equal(t, want[op].transports, o.transports, "%v: transports", op)
		assert.Equal(t, want[op].short, o.short, "%v: built in place", op)
		assert.Equal(t, want[op].facts, facts, "%v: facts", op)
		assert.Equal(t, want[op].wc, o.wc, "%v: completion", op)
	}
}

// The rights of a bind have the same numbers as in the table of package wqe.
func TestRights(t *testing.T) {
	assert.EqualValues(t, wqe.RightLocalWrite, AccessLocalWrite)
	assert.EqualValues(t, wqe.RightRemoteWrite, AccessRemoteWrite)
	assert.EqualValues(t, wqe.RightRemoteRead, AccessRemoteRead)
	assert.EqualValues(t, wqe.RightRemoteAtomic, AccessRemoteAtomic)
}
