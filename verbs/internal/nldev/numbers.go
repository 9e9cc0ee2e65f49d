//go:build linux && (amd64 || arm64)

package nldev

// Commands of enum rdma_nldev_command.
const (
	CmdGet           = 1
	CmdSet           = 2
	CmdNewLink       = 3
	CmdDelLink       = 4
	CmdPortGet       = 5
	CmdSysGet        = 6
	CmdSysSet        = 7
	CmdResGet        = 9
	CmdResQPGet      = 10
	CmdResCMIDGet    = 11
	CmdResCQGet      = 12
	CmdResMRGet      = 13
	CmdResPDGet      = 14
	CmdGetCharDev    = 15
	CmdStatSet       = 16
	CmdStatGet       = 17
	CmdStatDel       = 18
	CmdResQPGetRaw   = 19
	CmdResCQGetRaw   = 20
	CmdResMRGetRaw   = 21
	CmdResCtxGet     = 22
	CmdResSRQGet     = 23
	CmdStatGetStatus = 24
	CmdResSRQGetRaw  = 25
	CmdNewDev        = 26
	CmdDelDev        = 27
	CmdMonitor       = 28 // only in messages of a monitor
	NumCmds          = 29
)

// Attributes of enum rdma_nldev_attr.
const (
	attrPad            = 0
	AttrDevIndex       = 1
	AttrDevName        = 2
	AttrPortIndex      = 3
	attrCapFlags       = 4
	attrFWVersion      = 5
	attrNodeGUID       = 6
	attrSysImageGUID   = 7
	attrSubnetPrefix   = 8
	attrLID            = 9
	attrSMLID          = 10
	attrLMC            = 11
	attrPortState      = 12
	attrPortPhysState  = 13
	attrDevNodeType    = 14
	attrResSummary     = 15
	attrResSummaryItem = 16
	attrResSummaryName = 17
	attrResSummaryCurr = 18
	attrResQP          = 19
	attrResQPEntry     = 20
	AttrResLQPN        = 21
	attrResRQPN        = 22
	attrResRQPSN       = 23
	attrResSQPSN       = 24
	attrResPathMig     = 25
	attrResType        = 26
	attrResState       = 27
	attrResPID         = 28
	attrResCMID        = 30
	attrResCMIDEntry   = 31
	attrResPS          = 32
	attrResSrcAddr     = 33
	attrResDstAddr     = 34
	attrResCQ          = 35
	attrResCQEntry     = 36
	attrResCQE         = 37
	attrResUseCount    = 38
	attrResMR          = 40
	attrResMREntry     = 41
	attrResRKey        = 42
	attrResLKey        = 43
	attrResMRLen       = 45
	attrResPD          = 46
	attrResPDEntry     = 47
	attrNetdevIndex    = 50
	AttrNetdevName     = 51
	attrDriver         = 52
	attrDriverString   = 54
	AttrResPDN         = 60
	AttrResCQN         = 61
	AttrResMRN         = 62
	AttrResCMIDN       = 63
	AttrResCtxN        = 64
	AttrLinkType       = 65
	AttrSysNetnsMode   = 66
	attrDevProtocol    = 67
	AttrNetnsFD        = 68
	AttrCharDevType    = 69
	attrCharDevName    = 70
	attrCharDevABI     = 71
	attrCharDev        = 72
	attrDriverID       = 73
	AttrStatMode       = 74
	AttrStatRes        = 75
	AttrStatAutoMask   = 76
	attrStatCounter    = 77
	AttrStatCounterID  = 79
	attrHWCounters     = 80
	attrHWCounter      = 81
	attrHWCounterName  = 82
	attrHWCounterValue = 83
	AttrDevDim         = 84
	attrResCtx         = 86
	attrResCtxEntry    = 87
	attrResSRQ         = 88
	attrResSRQEntry    = 89
	AttrResSRQN        = 90
	attrMinRange       = 91
	attrMaxRange       = 92
	attrCopyOnFork     = 93
	attrHWCounterIndex = 94
	attrPrivilegedQKey = 96
	AttrDriverDetails  = 97
	attrResSubtype     = 98
	attrDevType        = 99
	attrNameAssign     = 101
	attrEventType      = 102
	attrMonitorMode    = 103
	attrOpCounters     = 104
	maxAttr            = 104
)

// Flags of a message's header (NLM_F_*).
const (
	FlagRequest = 0x1
	flagMulti   = 0x2
	FlagAck     = 0x4
	FlagDump    = 0x300 // either bit
	flagCapped  = 0x100 // of an acknowledgement
	flagTLVs    = 0x200 // of an acknowledgement
)

// Types of messages that belong to netlink itself.
const (
	typeError   = 2
	typeDone    = 3
	typeOverrun = 4
	minType     = 16 // NLMSG_MIN_TYPE
)

// client is RDMA_NL_NLDEV: the number of the client in a message's type, above 10 bits for the command.
const client, commandBits = 5, 10

const (
	// GroupNotify is the group of monitors, RDMA_NL_GROUP_NOTIFY.
	GroupNotify = 4
	// NumGroups is how many groups a socket can join.
	NumGroups = 32

	// MaxName is the most bytes of a device's name, MaxCharDevType of a kind of character device.
	MaxName, MaxCharDevType = 63, 32

	// MaxMessage is the most bytes of a message of a dump, with its header, as the kernel's. Programs read
	// into 4096 bytes.
	MaxMessage = 3760

	flagNested = 0x8000 // NLA_F_NESTED
	typeMask   = 0x3fff // NLA_TYPE_MASK
)
