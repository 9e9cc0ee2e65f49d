//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

// A writeCommand is a command of the older interface, in which programs wrote structures to
// the device file. libibverbs sends commands that have no method of their own through
// DEVICE.INVOKE_WRITE. A command has one structure as its request and one as its response,
// and the driver can add private data to each.
type writeCommand struct {
	number   uint32
	name     string
	request  int // least bytes of the request
	known    int // bytes of the request that have a meaning here; the bytes after them must be 0
	response int // least bytes of the response
	driver   int // least bytes of the driver's request
	run      func(c *call, req []byte) error
}

var writeCommands map[uint32]*writeCommand

func init() { // not a literal, for the same reason as the map methods
	writeCommands = make(map[uint32]*writeCommand)
	for _, w := range allWriteCommands() {
		writeCommands[w.number] = w
	}
}

func allWriteCommands() []*writeCommand {
	return []*writeCommand{
		{abi.CmdQueryDevice, "QUERY_DEVICE", abi.QueryDeviceSize, abi.QueryDeviceSize, abi.QueryDeviceRespSize, 0, queryDevice},
		{abi.CmdAllocPD, "ALLOC_PD", abi.AllocPDSize, abi.AllocPDSize, abi.AllocPDRespSize, 0, allocPD},
		{abi.CmdCreateAH, "CREATE_AH", abi.CreateAHSize, abi.CreateAHSize, abi.CreateAHRespSize, 0, createAH},
		{abi.CmdRegMR, "REG_MR", abi.RegMRSize, abi.RegMRSize, abi.RegMRRespSize, 0, regMR},
		{abi.CmdReregMR, "REREG_MR", abi.ReregMRSize, abi.ReregMRSize, abi.ReregMRRespSize, 0, reregMR},
		{abi.CmdAllocMW, "ALLOC_MW", abi.AllocMWSize, abi.AllocMWSize, abi.AllocMWRespSize, 0, allocMW},
		{abi.CmdCreateCompChannel, "CREATE_COMP_CHANNEL", abi.CreateCompChannelSize, abi.CreateCompChannelSize, abi.CreateCompChannelRespSize, 0, createChannel},
		{abi.CmdResizeCQ, "RESIZE_CQ", abi.ResizeCQSize, abi.ResizeCQSize, abi.ResizeCQRespSize, abi.MLX5ResizeCQReserved0, resizeCQ},
		{abi.CmdQueryQP, "QUERY_QP", abi.QueryQPSize, abi.QueryQPSize, abi.QueryQPRespSize, 0, queryQP},
		{abi.CmdModifyQP, "MODIFY_QP", abi.ModifyQPSize, abi.ModifyQPSize, 0, 0, modifyQP},
		{abi.CmdAttachMcast, "ATTACH_MCAST", abi.AttachMcastSize, abi.AttachMcastSize, 0, 0, attachMulticast},
		{abi.CmdDetachMcast, "DETACH_MCAST", abi.DetachMcastSize, abi.DetachMcastSize, 0, 0, detachMulticast},
		{abi.CmdModifySRQ, "MODIFY_SRQ", abi.ModifySRQSize, abi.ModifySRQSize, 0, 0, modifySRQ},
		{abi.CmdOpenXRCD, "OPEN_XRCD", abi.OpenXRCDSize, abi.OpenXRCDSize, abi.OpenXRCDRespSize, 0, openXRCD},
		{abi.CmdOpenQP, "OPEN_QP", abi.OpenQPSize, abi.OpenQPSize, abi.CreateQPRespSize, 0, openQP},
		{abi.CmdQuerySRQ, "QUERY_SRQ", abi.QuerySRQSize, abi.QuerySRQSize, abi.QuerySRQRespSize, 0, querySRQ},
		{extended | abi.ExCmdQueryDevice, "EX_QUERY_DEVICE", abi.ExQueryDeviceSize, abi.ExQueryDeviceSize, abi.ExQueryDeviceRespODPCaps, 0, exQueryDevice},
		{extended | abi.ExCmdModifyCQ, "EX_MODIFY_CQ", abi.ExModifyCQSize, abi.ExModifyCQSize, 0, 0, modifyCQ},
		{extended | abi.ExCmdModifyQP, "EX_MODIFY_QP", abi.ModifyQPSize, abi.ExModifyQPSize, 0, 0, exModifyQP},
	}
}

// extended is set in the number of a command that was added later (EX_).
const extended = abi.CmdFlagExtended

// invokeWrite runs a write command. libibverbs sends a command without arguments to find out
// whether the command exists. As in the kernel, the sizes are checked before anything else, so
// the answer is ENOSPC if the command exists and EOPNOTSUPP if it does not.
func invokeWrite(c *call) error {
	n := c.value(abi.AttrWriteCmd)
	w := writeCommands[uint32(n)]
	if n>>32 != 0 || w == nil {
		return refuse(eOPNOTSUPP, "%s", unservedCommand(n))
	}
	c.write = w
	req, driver := c.bytes(abi.AttrCoreIn), c.bytes(abi.AttrUHWIn)
	switch {
	case len(req) < w.request || c.room(abi.AttrCoreOut) < w.response:
		return expected(eNOSPC, "%d bytes of request and %d for the response; %d and %d are needed",
			len(req), c.room(abi.AttrCoreOut), w.request, w.response)
	case len(driver) < w.driver:
		return refuse(eINVAL, "%d bytes of private data; %d are needed", len(driver), w.driver)
	}
	if err := zeroFrom("request", req, w.known, eOPNOTSUPP); err != nil {
		return err
	}
	if len(req) < w.known {
		req = append(req[:len(req):len(req)], make([]byte, w.known-len(req))...)
	}
	return w.run(c, req)
}
