package verbs

// Objects of the kernel's namespace, and those of the mlx5 driver.
const (
	objDevice     = 0
	objPD         = 1
	objCQ         = 3
	objQP         = 4
	objSRQ        = 5
	objAH         = 6
	objMR         = 7
	objMW         = 8
	objAsyncEvent = 16
	objDevx       = 0x1000
	objUAR        = 0x1008
)

// queryOut is where QUERY_CONTEXT has its driver's answer: it takes nothing of one.
const queryOut = 0x1000

func deviceMethods() []*method {
	return []*method{
		{objDevice, 0, "DEVICE.INVOKE_WRITE", []field{
			{id: 2, name: "command", shape: constant},
			{id: 0, name: "request", shape: in, min: 4, optional: true},
			{id: 1, name: "response", shape: out, optional: true},
			{id: uhwIn, name: "driver_in", shape: in, optional: true},
			{id: uhwOut, name: "driver_out", shape: out, optional: true},
		}, invokeWrite},
		{objDevice, 2, "DEVICE.QUERY_PORT", []field{
			{id: 0, name: "port", shape: constant},
			{id: 1, name: "answer", shape: out, min: 40, max: 48, grows: true},
		}, queryPort},
		{objDevice, 3, "DEVICE.GET_CONTEXT", []field{
			{id: 0, name: "completion_vectors", shape: out, min: 4, max: 4, optional: true},
			{id: 1, name: "core_support", shape: out, min: 8, max: 8, optional: true},
			driverIn(8), driverOut(8),
		}, getContext},
		{objDevice, 4, "DEVICE.QUERY_CONTEXT", []field{
			{id: 0, name: "completion_vectors", shape: out, min: 4, max: 4, optional: true},
			{id: 1, name: "core_support", shape: out, min: 8, max: 8, optional: true},
			{id: queryOut, name: "driver_out", shape: out, optional: true},
		}, queryContext},
		{objDevice, 5, "DEVICE.QUERY_GID_TABLE", []field{
			{id: 0, name: "entry_size", shape: constant},
			{id: 1, name: "flags", shape: flagBits, optional: true},
			{id: 2, name: "entries", shape: out},
			{id: 3, name: "count", shape: out, min: 8, max: 8},
		}, queryGIDTable},
		{objDevice, 6, "DEVICE.QUERY_GID_ENTRY", []field{
			{id: 0, name: "port", shape: constant},
			{id: 1, name: "index", shape: constant},
			{id: 2, name: "flags", shape: flagBits},
			{id: 3, name: "entry", shape: out, min: 32, max: 32, grows: true},
		}, queryGIDEntry},
		{objDevice, 0x1000, "DEVICE.MLX5_QUERY_PORT", []field{
			{id: 0x1000, name: "port", shape: in, min: 4, max: 4},
			{id: 0x1001, name: "answer", shape: out, min: 40, grows: true},
		}, queryMlx5Port},
		{objAsyncEvent, 0, "ASYNC_EVENT.ALLOC", []field{
			{id: 0, name: "descriptor", shape: newFD},
		}, allocAsync},
		{objDevx, 0x1000, "MLX5_DEVX.OTHER", []field{
			{id: 0x1000, name: "command", shape: in, min: 16},
			{id: 0x1001, name: "output", shape: out, min: 16},
		}, devxOther},
		{objUAR, 0x1000, "MLX5_UAR.ALLOC", []field{
			{id: 0x1000, name: "handle", shape: newHandle, kind: kindUAR},
			{id: 0x1001, name: "type", shape: constant},
			{id: 0x1002, name: "mmap_offset", shape: out, min: 8, max: 8},
			{id: 0x1003, name: "mmap_length", shape: out, min: 4, max: 4},
			{id: 0x1004, name: "page_id", shape: out, min: 4, max: 4},
		}, allocUAR},
		{objUAR, 0x1001, "MLX5_UAR.DESTROY", []field{
			{id: 0x1000, name: "handle", shape: doomed, kind: kindUAR},
		}, (*call).destroyOnly},
	}
}
