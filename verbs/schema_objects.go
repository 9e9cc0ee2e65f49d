//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

func memoryMethods() []*method {
	return []*method{
		{abi.ObjectPD, abi.MethodPDDestroy, "PD.DESTROY", []field{
			{id: abi.AttrDestroyPDHandle, name: "handle", shape: destroyedHandle, kind: kindPD},
		}, (*call).destroyOnly},
		{abi.ObjectPD, abi.MLX5MethodPDQuery, "PD.MLX5_QUERY", []field{
			{id: abi.MLX5AttrQueryPDHandle, name: "handle", shape: handle, kind: kindPD},
			{id: abi.MLX5AttrQueryPDRespPDN, name: "pdn", shape: out, min: 4, max: 4},
		}, queryPD},
		{abi.ObjectMR, abi.MethodMRDestroy, "MR.DESTROY", []field{
			{id: abi.AttrDestroyMRHandle, name: "handle", shape: destroyedHandle, kind: kindMR},
		}, (*call).destroyOnly},
		{abi.ObjectMR, abi.MethodRegMR, "MR.REG", []field{
			{id: abi.AttrRegMRHandle, name: "handle", shape: newHandle, kind: kindMR},
			{id: abi.AttrRegMRPDHandle, name: "pd", shape: handle, kind: kindPD},
			{id: abi.AttrRegMRIOVA, name: "iova", shape: in, min: 8, max: 8},
			{id: abi.AttrRegMRAddr, name: "address", shape: in, min: 8, max: 8, optional: true},
			{id: abi.AttrRegMRLength, name: "length", shape: in, min: 8, max: 8},
			{id: abi.AttrRegMRAccessFlags, name: "access", shape: flagBits},
			{id: abi.AttrRegMRFD, name: "fd", shape: fd, optional: true},
			{id: abi.AttrRegMRFDOffset, name: "offset", shape: in, min: 8, max: 8, optional: true},
			{id: abi.AttrRegMRRespLKey, name: "lkey", shape: out, min: 4, max: 4},
			{id: abi.AttrRegMRRespRKey, name: "rkey", shape: out, min: 4, max: 4},
		}, regAnyMR},
		{abi.ObjectMR, abi.MethodAdviseMR, "MR.ADVISE", []field{
			{id: abi.AttrAdviseMRPDHandle, name: "pd", shape: handle, kind: kindPD},
			{id: abi.AttrAdviseMRAdvice, name: "advice", shape: constant},
			{id: abi.AttrAdviseMRFlags, name: "flags", shape: flagBits},
			{id: abi.AttrAdviseMRSGEList, name: "pieces", shape: in, min: abi.SGESize, max: 1<<16 - 1},
		}, adviseMR},
		{abi.ObjectMR, abi.MethodQueryMR, "MR.QUERY", []field{
			{id: abi.AttrQueryMRHandle, name: "handle", shape: handle, kind: kindMR},
			{id: abi.AttrQueryMRRespLKey, name: "lkey", shape: out, min: 4, max: 4},
			{id: abi.AttrQueryMRRespRKey, name: "rkey", shape: out, min: 4, max: 4},
			{id: abi.AttrQueryMRRespLength, name: "length", shape: out, min: 8, max: 8, optional: true},
			{id: abi.AttrQueryMRRespIOVA, name: "iova", shape: out, min: 8, max: 8, optional: true},
		}, queryMR},
		{abi.ObjectMW, abi.MethodMWDestroy, "MW.DESTROY", []field{
			{id: abi.AttrDestroyMWHandle, name: "handle", shape: destroyedHandle, kind: kindMW},
		}, (*call).destroyOnly},
	}
}

func addressMethods() []*method {
	return []*method{
		{abi.ObjectXRCD, abi.MethodXRCDDestroy, "XRCD.DESTROY", []field{
			{id: abi.AttrDestroyXRCDHandle, name: "handle", shape: destroyedHandle, kind: kindXRCD},
		}, (*call).destroyOnly},
		{abi.ObjectAH, abi.MethodAHDestroy, "AH.DESTROY", []field{
			{id: abi.AttrDestroyAHHandle, name: "handle", shape: destroyedHandle, kind: kindAH},
		}, (*call).destroyOnly},
	}
}

func queueMethods() []*method {
	return []*method{
		{abi.ObjectCQ, abi.MethodCQCreate, "CQ.CREATE", []field{
			{id: abi.AttrCreateCQHandle, name: "handle", shape: newHandle, kind: kindCQ},
			{id: abi.AttrCreateCQCQE, name: "cqe", shape: in, min: 4, max: 4},
			{id: abi.AttrCreateCQUserHandle, name: "user_handle", shape: in, min: 8, max: 8},
			{id: abi.AttrCreateCQCompChannel, name: "channel", shape: fd, optional: true},
			{id: abi.AttrCreateCQCompVector, name: "vector", shape: in, min: 4, max: 4},
			{id: abi.AttrCreateCQFlags, name: "flags", shape: flagBits, optional: true},
			{id: abi.AttrCreateCQRespCQE, name: "cqe_made", shape: out, min: 4, max: 4},
			{id: abi.AttrCreateCQEventFD, name: "async", shape: fd, optional: true},
			driverIn(createCQMin), driverOut(abi.MLX5CreateCQRespReserved),
		}, createCQ},
		{abi.ObjectCQ, abi.MethodCQDestroy, "CQ.DESTROY", []field{
			{id: abi.AttrDestroyCQHandle, name: "handle", shape: destroyedHandle, kind: kindCQ},
			{id: abi.AttrDestroyCQResp, name: "events", shape: out, min: abi.DestroyCQRespSize, max: abi.DestroyCQRespSize, grows: true},
		}, destroyCQ},
		{abi.ObjectQP, abi.MethodQPCreate, "QP.CREATE", []field{
			{id: abi.AttrCreateQPHandle, name: "handle", shape: newHandle, kind: kindQP},
			{id: abi.AttrCreateQPXRCDHandle, name: "xrcd", shape: handle, kind: kindXRCD, optional: true},
			{id: abi.AttrCreateQPPDHandle, name: "pd", shape: handle, kind: kindPD, optional: true},
			{id: abi.AttrCreateQPSRQHandle, name: "srq", shape: handle, kind: kindSRQ, optional: true},
			{id: abi.AttrCreateQPSendCQHandle, name: "send_cq", shape: handle, kind: kindCQ, optional: true},
			{id: abi.AttrCreateQPRecvCQHandle, name: "recv_cq", shape: handle, kind: kindCQ, optional: true},
			{id: abi.AttrCreateQPIndTableHandle, name: "ind_table", shape: handle, kind: kindTable, optional: true},
			{id: abi.AttrCreateQPUserHandle, name: "user_handle", shape: in, min: 8, max: 8},
			{id: abi.AttrCreateQPCap, name: "cap", shape: in, min: abi.QPCapSize, max: abi.QPCapSize, grows: true},
			{id: abi.AttrCreateQPType, name: "type", shape: constant},
			{id: abi.AttrCreateQPFlags, name: "flags", shape: flagBits, optional: true},
			{id: abi.AttrCreateQPSourceQPN, name: "source_qpn", shape: in, min: 4, max: 4, optional: true},
			{id: abi.AttrCreateQPEventFD, name: "async", shape: fd, optional: true},
			{id: abi.AttrCreateQPRespCap, name: "cap_made", shape: out, min: abi.QPCapSize, max: abi.QPCapSize, grows: true},
			{id: abi.AttrCreateQPRespQPNum, name: "qpn", shape: out, min: 4, max: 4},
			driverIn(createQPMin), {id: abi.AttrUHWOut, name: "driver_out", shape: out, optional: true},
		}, createQP},
		{abi.ObjectQP, abi.MethodQPDestroy, "QP.DESTROY", []field{
			{id: abi.AttrDestroyQPHandle, name: "handle", shape: destroyedHandle, kind: kindQP},
			{id: abi.AttrDestroyQPResp, name: "events", shape: out, min: abi.DestroyQPRespSize, max: abi.DestroyQPRespSize, grows: true},
		}, destroyQP},
		{abi.ObjectSRQ, abi.MethodSRQCreate, "SRQ.CREATE", []field{
			{id: abi.AttrCreateSRQHandle, name: "handle", shape: newHandle, kind: kindSRQ},
			{id: abi.AttrCreateSRQPDHandle, name: "pd", shape: handle, kind: kindPD},
			{id: abi.AttrCreateSRQXRCDHandle, name: "xrcd", shape: handle, kind: kindXRCD, optional: true},
			{id: abi.AttrCreateSRQCQHandle, name: "cq", shape: handle, kind: kindCQ, optional: true},
			{id: abi.AttrCreateSRQUserHandle, name: "user_handle", shape: in, min: 8, max: 8},
			{id: abi.AttrCreateSRQMaxWR, name: "max_wr", shape: in, min: 4, max: 4},
			{id: abi.AttrCreateSRQMaxSGE, name: "max_sge", shape: in, min: 4, max: 4},
			{id: abi.AttrCreateSRQLimit, name: "limit", shape: in, min: 4, max: 4},
			{id: abi.AttrCreateSRQMaxNumTags, name: "max_tags", shape: in, min: 4, max: 4, optional: true},
			{id: abi.AttrCreateSRQType, name: "type", shape: constant},
			{id: abi.AttrCreateSRQEventFD, name: "async", shape: fd, optional: true},
			{id: abi.AttrCreateSRQRespMaxWR, name: "max_wr_made", shape: out, min: 4, max: 4},
			{id: abi.AttrCreateSRQRespMaxSGE, name: "max_sge_made", shape: out, min: 4, max: 4},
			{id: abi.AttrCreateSRQRespSRQNum, name: "srq_num", shape: out, min: 4, max: 4, optional: true},
			driverIn(createSRQMin), driverOut(abi.MLX5CreateSRQRespReserved),
		}, createSRQ},
		{abi.ObjectSRQ, abi.MethodSRQDestroy, "SRQ.DESTROY", []field{
			{id: abi.AttrDestroySRQHandle, name: "handle", shape: destroyedHandle, kind: kindSRQ},
			{id: abi.AttrDestroySRQResp, name: "events", shape: out, min: abi.DestroySRQRespSize, max: abi.DestroySRQRespSize, grows: true},
		}, destroySRQ},
	}
}
