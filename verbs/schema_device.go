//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
)

func deviceMethods() []*method {
	return []*method{
		{abi.ObjectDevice, abi.MethodInvokeWrite, "DEVICE.INVOKE_WRITE", []field{
			{id: abi.AttrWriteCmd, name: "command", shape: constant},
			{id: abi.AttrCoreIn, name: "request", shape: in, min: 4, optional: true},
			{id: abi.AttrCoreOut, name: "response", shape: out, optional: true},
			{id: abi.AttrUHWIn, name: "driver_in", shape: in, optional: true},
			{id: abi.AttrUHWOut, name: "driver_out", shape: out, optional: true},
		}, invokeWrite},
		{abi.ObjectDevice, abi.MethodQueryPort, "DEVICE.QUERY_PORT", []field{
			{id: abi.AttrQueryPortPortNum, name: "port", shape: constant},
			{id: abi.AttrQueryPortResp, name: "answer", shape: out, min: abi.QueryPortRespSize, max: abi.QueryPortRespExSize, grows: true},
		}, queryPort},
		{abi.ObjectDevice, abi.MethodQueryPortSpeed, "DEVICE.QUERY_PORT_SPEED", []field{
			{id: abi.AttrQueryPortSpeedPortNum, name: "port", shape: constant},
			{id: abi.AttrQueryPortSpeedResp, name: "speed", shape: out, min: 8, max: 8},
		}, queryPortSpeed},
		{abi.ObjectDevice, abi.MethodGetContext, "DEVICE.GET_CONTEXT", []field{
			{id: abi.AttrGetContextNumCompVectors, name: "completion_vectors", shape: out, min: 4, max: 4, optional: true},
			{id: abi.AttrGetContextCoreSupport, name: "core_support", shape: out, min: 8, max: 8, optional: true},
			driverIn(abi.MLX5AllocUcontextReqSize), driverOut(abi.MLX5AllocUcontextRespTotBFRegs),
		}, getContext},
		{abi.ObjectDevice, abi.MethodQueryContext, "DEVICE.QUERY_CONTEXT", []field{
			{id: abi.AttrQueryContextNumCompVectors, name: "completion_vectors", shape: out, min: 4, max: 4, optional: true},
			{id: abi.AttrQueryContextCoreSupport, name: "core_support", shape: out, min: 8, max: 8, optional: true},
			{id: abi.MLX5AttrQueryContextRespUctx, name: "driver_out", shape: out, optional: true},
		}, queryContext},
		{abi.ObjectDevice, abi.MethodQueryGIDTable, "DEVICE.QUERY_GID_TABLE", []field{
			{id: abi.AttrQueryGIDTableEntrySize, name: "entry_size", shape: constant},
			{id: abi.AttrQueryGIDTableFlags, name: "flags", shape: flagBits, optional: true},
			{id: abi.AttrQueryGIDTableRespEntries, name: "entries", shape: out},
			{id: abi.AttrQueryGIDTableRespNumEntries, name: "count", shape: out, min: 8, max: 8},
		}, queryGIDTable},
		{abi.ObjectDevice, abi.MethodQueryGIDEntry, "DEVICE.QUERY_GID_ENTRY", []field{
			{id: abi.AttrQueryGIDEntryPort, name: "port", shape: constant},
			{id: abi.AttrQueryGIDEntryGIDIndex, name: "index", shape: constant},
			{id: abi.AttrQueryGIDEntryFlags, name: "flags", shape: flagBits},
			{id: abi.AttrQueryGIDEntryRespEntry, name: "entry", shape: out, min: abi.GIDEntrySize, max: abi.GIDEntrySize, grows: true},
		}, queryGIDEntry},
		{abi.ObjectDevice, abi.MLX5MethodQueryPort, "DEVICE.MLX5_QUERY_PORT", []field{
			{id: abi.MLX5AttrQueryPortPortNum, name: "port", shape: in, min: 4, max: 4},
			{id: abi.MLX5AttrQueryPort, name: "answer", shape: out, min: abi.MLX5QueryPortSize, grows: true},
		}, queryMlx5Port},
		{abi.ObjectAsyncEvent, abi.MethodAsyncEventAlloc, "ASYNC_EVENT.ALLOC", []field{
			{id: abi.AttrAsyncEventAllocFDHandle, name: "descriptor", shape: newFD},
		}, allocAsync},
		{abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXOther, "MLX5_DEVX.OTHER", []field{
			{id: abi.MLX5AttrDEVXOtherCmdIn, name: "command", shape: in, min: devx.HeadSize},
			{id: abi.MLX5AttrDEVXOtherCmdOut, name: "output", shape: out, min: devx.HeadSize},
		}, devxOther},
		{abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXQueryEQN, "MLX5_DEVX.QUERY_EQN", []field{
			{id: abi.MLX5AttrDEVXQueryEQNUserVec, name: "vector", shape: in, min: 4, max: 4},
			{id: abi.MLX5AttrDEVXQueryEQNDevEQN, name: "eqn", shape: out, min: 4, max: 4},
		}, inDEVX(abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXQueryEQN, queryEQN)},
		{abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjCreate, "MLX5_DEVX_OBJ.CREATE", []field{
			{id: abi.MLX5AttrDEVXObjCreateHandle, name: "handle", shape: newHandle, kind: kindDEVX},
			{id: abi.MLX5AttrDEVXObjCreateCmdIn, name: "command", shape: in, min: devx.HeadSize},
			{id: abi.MLX5AttrDEVXObjCreateCmdOut, name: "output", shape: out, min: devx.HeadSize},
		}, createFirmwareObject},
		{abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjDestroy, "MLX5_DEVX_OBJ.DESTROY", []field{
			{id: abi.MLX5AttrDEVXObjDestroyHandle, name: "handle", shape: destroyedHandle, kind: kindDEVX},
		}, (*call).destroyOnly},
		{abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjModify, "MLX5_DEVX_OBJ.MODIFY", []field{
			{id: abi.MLX5AttrDEVXObjModifyHandle, name: "handle", shape: handle, kind: kindAny},
			{id: abi.MLX5AttrDEVXObjModifyCmdIn, name: "command", shape: in, min: devx.HeadSize},
			{id: abi.MLX5AttrDEVXObjModifyCmdOut, name: "output", shape: out, min: devx.HeadSize},
		}, modifyFirmwareObject},
		{abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjQuery, "MLX5_DEVX_OBJ.QUERY", []field{
			{id: abi.MLX5AttrDEVXObjQueryHandle, name: "handle", shape: handle, kind: kindAny},
			{id: abi.MLX5AttrDEVXObjQueryCmdIn, name: "command", shape: in, min: devx.HeadSize},
			{id: abi.MLX5AttrDEVXObjQueryCmdOut, name: "output", shape: out, min: devx.HeadSize},
		}, inDEVX(abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjQuery, queryFirmwareObject)},
		{abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjAsyncQuery, "MLX5_DEVX_OBJ.ASYNC_QUERY", []field{
			{id: abi.MLX5AttrDEVXObjQueryAsyncHandle, name: "handle", shape: handle, kind: kindAny},
			{id: abi.MLX5AttrDEVXObjQueryAsyncCmdIn, name: "command", shape: in, min: devx.HeadSize},
			{id: abi.MLX5AttrDEVXObjQueryAsyncFD, name: "descriptor", shape: fd},
			{id: abi.MLX5AttrDEVXObjQueryAsyncWRID, name: "wr_id", shape: in, min: 8, max: 8},
			{id: abi.MLX5AttrDEVXObjQueryAsyncOutLen, name: "output_length", shape: constant},
		}, inDEVX(abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjAsyncQuery, queryLater)},
		{abi.MLX5ObjectUAR, abi.MLX5MethodUARObjAlloc, "MLX5_UAR.ALLOC", []field{
			{id: abi.MLX5AttrUARObjAllocHandle, name: "handle", shape: newHandle, kind: kindUAR},
			{id: abi.MLX5AttrUARObjAllocType, name: "type", shape: constant},
			{id: abi.MLX5AttrUARObjAllocMmapOffset, name: "mmap_offset", shape: out, min: 8, max: 8},
			{id: abi.MLX5AttrUARObjAllocMmapLength, name: "mmap_length", shape: out, min: 4, max: 4},
			{id: abi.MLX5AttrUARObjAllocPageID, name: "page_id", shape: out, min: 4, max: 4},
		}, allocUAR},
		{abi.MLX5ObjectUAR, abi.MLX5MethodUARObjDestroy, "MLX5_UAR.DESTROY", []field{
			{id: abi.MLX5AttrUARObjDestroyHandle, name: "handle", shape: destroyedHandle, kind: kindUAR},
		}, (*call).destroyOnly},
	}
}
