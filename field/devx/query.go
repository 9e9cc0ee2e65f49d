package devx

// Commands that ask about the device, and their answers.
var (
	inCap    = &Group{Name: "capabilities"}
	CapGroup = inCap.bits("group", 0x04, 15, 1, "group of capabilities", capGroups)
	CapNow   = inCap.bits("current", 0x04, 0, 0, "the present values, not the greatest possible")

	outISSI       = &Group{Name: "versions of the interface"}
	ISSI          = outISSI.bits("current_issi", 0x08, 15, 0, "version of the interface that is in use")
	ISSISupported = outISSI.bits("supported_issi_dw0", 0x6c, 31, 0, "bit n: version n is possible")

	outAdapter    = &Group{Name: "adapter"}
	AdapterVendor = outAdapter.bits("ieee_vendor_id", 0x28, 23, 0, "the vendor's number at the IEEE")
	AdapterVSD    = outAdapter.bits("vsd_vendor_id", 0x2c, 15, 0, "the vendor's number at the PCI-SIG")
	AdapterBoard  = outAdapter.raw("vsd", 0x30, 208, "data of the vendor")
	AdapterPSID   = outAdapter.raw("vsd_contd_psid", 0x100, 16, "the board's number (PSID)")

	inVport     = &Group{Name: "port"}
	VportOther  = inVport.bits("other_vport", 0x08, 31, 31, "the port is one of another function, behind the switch")
	VportNumber = inVport.bits("vport_number", 0x08, 15, 0, "number of the other function's port")

	outVport   = &Group{Name: "state of a port"}
	VportSpeed = outVport.bits("max_tx_speed", 0x0c, 31, 16, "greatest speed, in 100 Mbit/s; 0: not limited")
	VportAdmin = outVport.bits("admin_state", 0x0c, 7, 4, "what the port is to be", vportStates)
	VportState = outVport.bits("state", 0x0c, 3, 0, "what the port is", vportStates)

	inRoCE    = &Group{Name: "entry of the GID table"}
	RoCEIndex = inRoCE.bits("roce_address_index", 0x08, 31, 16, "index of the GID")
	RoCEPort  = inRoCE.bits("vhca_port_num", 0x08, 3, 0, "number of the port")

	outRoCE     = &Group{Name: "roce_address", At: 0x10, Context: true}
	RoCEGID     = outRoCE.raw("source_l3_address", 0x00, 16, "the GID")
	RoCEHasVLAN = outRoCE.bits("vlan_valid", 0x10, 28, 28, "packets have a VLAN tag")
	RoCEVLAN    = outRoCE.bits("vlan_id", 0x10, 27, 16, "VLAN")
	RoCEMACHigh = outRoCE.bits("source_mac_47_32", 0x10, 15, 0, "the own MAC address, the first two bytes")
	RoCEMACLow  = outRoCE.bits("source_mac_31_0", 0x14, 31, 0, "the own MAC address, the last four bytes")
	RoCEL3      = outRoCE.bits("roce_l3_type", 0x18, 11, 8, "kind of the address", l3Names)
	RoCEVersion = outRoCE.bits("roce_version", 0x18, 7, 0, "version of RoCE", roceVersions)

	outLAG    = &Group{Name: "lag_context", At: 0x08, Context: true}
	LAGSelect = outLAG.bits("port_select_mode", 0x00, 10, 8, "how a port is chosen")
	LAGState  = outLAG.bits("lag_state", 0x00, 2, 0, "0: ports are not joined")
	LAGPort2  = outLAG.bits("tx_remap_affinity_2", 0x04, 11, 8, "port that is used for port 2")
	LAGPort1  = outLAG.bits("tx_remap_affinity_1", 0x04, 3, 0, "port that is used for port 1")
)

// General objects are of a type that a number names.
var (
	inObject    = &Group{Name: "general object"}
	ObjectType  = inObject.bits("obj_type", 0x04, 15, 0, "type of the object", objectTypes)
	ObjectID    = inObject.bits("obj_id", 0x08, 31, 0, "number of the object, unless it is new")
	ObjectAlias = inObject.bits("alias_object", 0x0c, 31, 31, "the object stands for one of another function")
	ObjectRange = inObject.bits("log_obj_range", 0x0c, 28, 24, "logarithm of how many objects")

	// Of ObjectMap, the first word of the object. An address follows.
	MappedQPN = &Field{Name: "qpn", At: 0x1c, High: 31, Text: "number of the queue pair"}

	outObject   = &Group{Name: "answer about a general object"}
	NewObjectID = outObject.bits("obj_id", 0x08, 31, 0, "number of the object")
)

// Values of ObjectType.
const (
	ObjectQPN = 0x2c
	ObjectMap = 0x3a
)

// Names of values.
var (
	capGroups = map[uint64]string{
		CapsGeneral:      "general",
		0x01:             "Ethernet offloads",
		CapsODP:          "ODP",
		CapsAtomic:       "atomics",
		CapsRoCE:         "RoCE",
		0x07:             "flow table",
		0x0c:             "QoS",
		CapsDeviceMemory: "device memory",
		CapsGeneral2:     "general, second part",
	}
	l3Names      = map[uint64]string{0: "IPv4", 1: "IPv6"}
	roceVersions = map[uint64]string{0: "RoCE v1", 1: "RoCE v1.5", 2: "RoCE v2"}
	vportStates  = map[uint64]string{0: "down", 1: "up", 2: "as the link"}
	objectTypes  = map[uint64]string{
		0x0c:      "encryption key",
		0x0d:      "virtio queue",
		ObjectQPN: "reserved queue pair numbers",
		ObjectMap: "address mapped to a queue pair",
	}
)
