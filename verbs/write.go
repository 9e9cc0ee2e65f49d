package verbs

// A writeCommand is a method of older times. Its arguments are one struct each
// way and as much private data of the driver; sizes are those that at least are
// needed, and how much of the request is known.
type writeCommand struct {
	number         uint32
	name           string
	request, known int
	response       int
	driver         int // bytes of the driver's request
	run            func(c *call, req []byte) error
}

// extended is set in the number of newer ones.
const extended = 1 << 31

var writeCommands map[uint32]*writeCommand

func init() { // as for methods
	writeCommands = make(map[uint32]*writeCommand)
	for _, w := range allWriteCommands() {
		writeCommands[w.number] = w
	}
}

func allWriteCommands() []*writeCommand {
	return []*writeCommand{
		{0x01, "QUERY_DEVICE", 8, 8, 176, 0, queryDevice},
		{0x03, "ALLOC_PD", 8, 8, 4, 0, allocPD},
		{0x05, "CREATE_AH", 56, 56, 4, 0, createAH},
		{0x09, "REG_MR", 40, 40, 12, 0, regMR},
		{0x0b, "REREG_MR", 48, 48, 8, 0, reregMR},
		{0x0e, "ALLOC_MW", 16, 16, 8, 0, allocMW},
		{0x11, "CREATE_COMP_CHANNEL", 8, 8, 4, 0, createChannel},
		{0x13, "RESIZE_CQ", 16, 16, 8, 10, resizeCQ},
		{0x19, "QUERY_QP", 16, 16, 128, 0, queryQP},
		{0x1a, "MODIFY_QP", 112, 112, 0, 0, modifyQP},
		{0x1e, "ATTACH_MCAST", 24, 24, 0, 0, attachMulticast},
		{0x1f, "DETACH_MCAST", 24, 24, 0, 0, detachMulticast},
		{0x21, "MODIFY_SRQ", 16, 16, 0, 0, modifySRQ},
		{0x22, "QUERY_SRQ", 16, 16, 16, 0, querySRQ},
		{extended | 0x01, "EX_QUERY_DEVICE", 8, 8, 176 + 8, 0, exQueryDevice},
		{extended | 0x1a, "EX_MODIFY_QP", 112, 120, 0, 0, exModifyQP},
	}
}

// invokeWrite does what a write command wants. A probe without arguments is
// answered like the kernel does, who first looks whether there is enough room.
func invokeWrite(c *call) error {
	n := c.value(2)
	w := writeCommands[uint32(n)]
	if n>>32 != 0 || w == nil {
		return refuse(eOPNOTSUPP, "write command %#x: this device does not have it", n)
	}
	c.write = w
	req := c.bytes(0)
	switch {
	case len(req) < w.request || c.room(1) < w.response:
		return expected(eNOSPC, "%d bytes of request and %d for the response; %d and %d are needed",
			len(req), c.room(1), w.request, w.response)
	case len(c.bytes(uhwIn)) < w.driver:
		return refuse(eINVAL, "%d bytes of private data; %d are needed", len(c.bytes(uhwIn)), w.driver)
	}
	if err := zeroFrom("request", req, w.known, eOPNOTSUPP); err != nil {
		return err
	}
	if len(req) < w.known {
		req = append(req[:len(req):len(req)], make([]byte, w.known-len(req))...)
	}
	return w.run(c, req)
}
