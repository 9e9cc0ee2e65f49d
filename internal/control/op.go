package control

// Version of the protocol. A device refuses a client with another major number. A minor number only adds:
// operations, flags of requests, and fields in what was padding. Older devices ignore or refuse what they do
// not know, so a client uses it only if the Welcome has the minor number.
const (
	Major uint16 = 2
	Minor uint16 = 13
)

// Magic begins a Hello: "nicl" in memory order.
const Magic uint32 = 0x6c63696e

// Op is an operation of the protocol.
type Op uint16

// Operations. Each comment has the message of the request and, after the arrow, the message
// of the answer; descriptors that the answer carries are in brackets. Within a major version
// the number of a removed operation is never used for another.
const (
	OpHello          Op = 1  // Hello -> Welcome + [UAR pages, status page]
	OpAllocPD        Op = 2  // Empty -> PD
	OpDeallocPD      Op = 3  // PD -> Empty
	OpCreateRegion   Op = 4  // RegionSize -> RegionID + [memory]
	OpDropRegion     Op = 5  // RegionID -> Empty
	OpRegMR          Op = 6  // MR -> Key
	OpDeregMR        Op = 7  // Key -> Empty
	OpCreateChannel  Op = 8  // Empty -> Channel + [event descriptor]
	OpDestroyChannel Op = 9  // Channel -> Empty
	OpCreateCQ       Op = 10 // CQ -> CQN
	OpDestroyCQ      Op = 11 // CQN -> Empty
	OpCreateQP       Op = 12 // QP -> QPN
	OpModifyQP       Op = 13 // QPAttr -> Empty
	OpQueryQP        Op = 14 // QPN -> QPAttr
	OpDestroyQP      Op = 15 // QPN -> Empty
	OpCreateSRQ      Op = 16 // SRQ -> SRQN
	OpModifySRQ      Op = 17 // SRQLimit -> Empty
	OpQuerySRQ       Op = 18 // SRQN -> SRQLimit
	OpDestroySRQ     Op = 19 // SRQN -> Empty
	OpResizeCQ       Op = 20 // ResizeCQ -> Empty
	OpAllocMW        Op = 21 // MW -> Key
	OpCreateMkey     Op = 22 // Mkey -> Key
	OpReregMR        Op = 23 // ReregMR -> Key
	OpOpenEvents     Op = 24 // Empty -> Empty + [event descriptor]
	OpWake           Op = 25 // Wake -> Empty + [eventfd, unless wakes is 0]
	OpPlaceRegion    Op = 26 // Placement -> Empty
	OpOpenXRCD       Op = 27 // Empty -> XRCD
	OpCloseXRCD      Op = 28 // XRCD -> Empty
	OpCreateXSRQ     Op = 29 // XSRQ -> SRQN
	OpCreateTarget   Op = 30 // XRCD -> QPN
	OpOpenTarget     Op = 31 // Target -> Empty
	OpCreateDCT      Op = 32 // DCT -> QPN
	OpAddress        Op = 33 // Empty -> Address
	OpSetPeer        Op = 34 // Peer -> Empty

	OpAnnounce         Op = 35 // Announce -> Empty
	OpNextAnnouncement Op = 36 // AnnouncementPlace -> Announcement
	OpAnnounceTo       Op = 37 // AnnounceTo -> Empty

	OpWatch Op = 38 // Watch -> Rings + [memory]

	OpSetFaults  Op = 39 // Faults -> Empty
	OpQueryFault Op = 40 // FaultRule -> FaultCount

	OpQueryPort Op = 41 // Empty -> Port

	OpOpenBox     Op = 42 // Empty -> Box
	OpSendMessage Op = 43 // BoxMessage -> Empty
	OpNextMessage Op = 44 // Empty -> BoxMessage

	OpNextChange Op = 45 // ChangesSince -> Change
)
