package verbs

func memoryMethods() []*method {
	return []*method{
		{objPD, 0, "PD.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindPD},
		}, (*call).destroyOnly},
		{objPD, 0x1000, "PD.MLX5_QUERY", []field{
			{id: 0x1000, name: "handle", shape: handle, kind: kindPD},
			{id: 0x1001, name: "pdn", shape: out, min: 4, max: 4},
		}, queryPD},
		{objMR, 1, "MR.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindMR},
		}, (*call).destroyOnly},
		{objMR, 3, "MR.QUERY", []field{
			{id: 0, name: "handle", shape: handle, kind: kindMR},
			{id: 1, name: "lkey", shape: out, min: 4, max: 4},
			{id: 2, name: "rkey", shape: out, min: 4, max: 4},
			{id: 3, name: "length", shape: out, min: 8, max: 8, optional: true},
			{id: 4, name: "iova", shape: out, min: 8, max: 8, optional: true},
		}, queryMR},
		{objMW, 0, "MW.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindMW},
		}, (*call).destroyOnly},
	}
}

func addressMethods() []*method {
	return []*method{
		{objAH, 0, "AH.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindAH},
		}, (*call).destroyOnly},
	}
}

func queueMethods() []*method {
	return []*method{
		{objCQ, 0, "CQ.CREATE", []field{
			{id: 0, name: "handle", shape: newHandle, kind: kindCQ},
			{id: 1, name: "cqe", shape: in, min: 4, max: 4},
			{id: 2, name: "user_handle", shape: in, min: 8, max: 8},
			{id: 3, name: "channel", shape: fd, optional: true},
			{id: 4, name: "vector", shape: in, min: 4, max: 4},
			{id: 5, name: "flags", shape: flagBits, optional: true},
			{id: 6, name: "cqe_made", shape: out, min: 4, max: 4},
			{id: 7, name: "async", shape: fd, optional: true},
			driverIn(createCQIn), driverOut(4),
		}, createCQ},
		{objCQ, 1, "CQ.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindCQ},
			{id: 1, name: "events", shape: out, min: 8, max: 8, grows: true},
		}, destroyCQ},
		{objQP, 0, "QP.CREATE", []field{
			{id: 0, name: "handle", shape: newHandle, kind: kindQP},
			{id: 1, name: "xrcd", shape: handle, kind: kindXRCD, optional: true},
			{id: 2, name: "pd", shape: handle, kind: kindPD, optional: true},
			{id: 3, name: "srq", shape: handle, kind: kindSRQ, optional: true},
			{id: 4, name: "send_cq", shape: handle, kind: kindCQ, optional: true},
			{id: 5, name: "recv_cq", shape: handle, kind: kindCQ, optional: true},
			{id: 6, name: "ind_table", shape: handle, kind: kindTable, optional: true},
			{id: 7, name: "user_handle", shape: in, min: 8, max: 8},
			{id: 8, name: "cap", shape: in, min: 20, max: 20, grows: true},
			{id: 9, name: "type", shape: constant},
			{id: 10, name: "flags", shape: flagBits, optional: true},
			{id: 11, name: "source_qpn", shape: in, min: 4, max: 4, optional: true},
			{id: 12, name: "async", shape: fd, optional: true},
			{id: 13, name: "cap_made", shape: out, min: 20, max: 20, grows: true},
			{id: 14, name: "qpn", shape: out, min: 4, max: 4},
			driverIn(createQPIn), {id: uhwOut, name: "driver_out", shape: out, optional: true},
		}, createQP},
		{objQP, 1, "QP.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindQP},
			{id: 1, name: "events", shape: out, min: 4, max: 4, grows: true},
		}, (*call).destroyCounted},
		{objSRQ, 0, "SRQ.CREATE", []field{
			{id: 0, name: "handle", shape: newHandle, kind: kindSRQ},
			{id: 1, name: "pd", shape: handle, kind: kindPD},
			{id: 2, name: "xrcd", shape: handle, kind: kindXRCD, optional: true},
			{id: 3, name: "cq", shape: handle, kind: kindCQ, optional: true},
			{id: 4, name: "user_handle", shape: in, min: 8, max: 8},
			{id: 5, name: "max_wr", shape: in, min: 4, max: 4},
			{id: 6, name: "max_sge", shape: in, min: 4, max: 4},
			{id: 7, name: "limit", shape: in, min: 4, max: 4},
			{id: 8, name: "max_tags", shape: in, min: 4, max: 4, optional: true},
			{id: 9, name: "type", shape: constant},
			{id: 10, name: "async", shape: fd, optional: true},
			{id: 11, name: "max_wr_made", shape: out, min: 4, max: 4},
			{id: 12, name: "max_sge_made", shape: out, min: 4, max: 4},
			{id: 13, name: "srq_num", shape: out, min: 4, max: 4, optional: true},
			driverIn(createSRQIn), driverOut(4),
		}, createSRQ},
		{objSRQ, 1, "SRQ.DESTROY", []field{
			{id: 0, name: "handle", shape: doomed, kind: kindSRQ},
			{id: 1, name: "events", shape: out, min: 4, max: 4, grows: true},
		}, (*call).destroyCounted},
	}
}
