package control

import (
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// golden holds a datagram for each message. The datagrams were written by hand from the layouts
// in docs/CONTROL.md, which has them as examples. Numbers are little-endian.
var golden = []struct {
	name  string
	op    Op
	flags uint16
	tag   uint64
	m     Message
	bytes string
}{
	{"hello", OpHello, 0, 1,
		&Hello{Magic: Magic, Major: 2, Minor: 0, Name: "demo"},
		`0100 0000 14000000 0100000000000000
		 6e69636c 0200 0000 0000000000000000 "demo"`},

	{"welcome", OpHello, FlagAnswer, 1,
		&Welcome{Major: 2, Minor: 0, UARPages: 4, GUID: 0x0123456789abcdef,
			MaxRegions: 1024, MaxPDs: 256, MaxMRs: 65536, MaxCQs: 16384, MaxQPs: 8192, MaxChannels: 512,
			MaxBytes: 1 << 40, MaxLogSQ: 15, MaxLogRQ: 14, MaxLogCQ: 22, MaxRdAtomic: 16, MaxMessageLog: 30},
		`0100 0100 40000000 0100000000000000
		 0200 0000 04000000 0000000000000000 efcdab8967452301
		 00040000 00010000 00000100 00400000 00200000 00020000
		 0000000000010000 0f 0e 16 10 1e 000000`},

	{"alloc_pd", OpAllocPD, 0, 2, &Empty{},
		`0200 0000 00000000 0200000000000000`},

	{"alloc_pd answer", OpAllocPD, FlagAnswer, 2, &PD{PDN: 7},
		`0200 0100 04000000 0200000000000000
		 07000000`},

	{"watch", OpWatch, 0, 28, &Watch{Bytes: 1 << 20, Program: "ring"},
		`2600 0000 18000000 1c00000000000000
		 0000100000000000 00000000 00000000 00000000 72696e67`},

	{"watch answer", OpWatch, FlagAnswer, 28, &Rings{Rings: 2, Size: 0x101000},
		`2600 0100 08000000 1c00000000000000
		 02000000 00101000`},

	{"set_faults", OpSetFaults, 0, 29, &Faults{Total: 21, At: 10, Text: `[{"rnr":2}]`},
		`2700 0000 13000000 1d00000000000000
		 15000000 0a000000 "[{\"rnr\":2}]"`},

	{"set_faults answer", OpSetFaults, FlagAnswer, 29, &Empty{},
		`2700 0100 00000000 1d00000000000000`},

	{"query_fault", OpQueryFault, 0, 30, &FaultRule{Rule: 1},
		`2800 0000 04000000 1e00000000000000
		 01000000`},

	{"query_fault answer", OpQueryFault, FlagAnswer, 30, &FaultCount{Acted: 0x123},
		`2800 0100 08000000 1e00000000000000
		 2301000000000000`},

	{"query_port", OpQueryPort, 0, 31, &Empty{},
		`2900 0000 00000000 1f00000000000000`},

	{"query_port answer", OpQueryPort, FlagAnswer, 31,
		&Port{State: 4, Changes: 2, GID: [16]byte{0: 0xfe, 1: 0x80, 11: 2, 15: 9}},
		`2900 0100 18000000 1f00000000000000
		 04 000000 02000000 fe80 0000000000000000 00 02 000000 09`},

	{"create_region", OpCreateRegion, 0, 3, &RegionSize{Size: 0x200000},
		`0400 0000 08000000 0300000000000000
		 0000200000000000`},

	{"create_region answer", OpCreateRegion, FlagAnswer, 3, &RegionID{ID: 1},
		`0400 0100 04000000 0300000000000000
		 01000000`},

	{"place_region", OpPlaceRegion, 0, 4, &Placement{ID: 1, Addr: 0x7f1234560000},
		`1a00 0000 10000000 0400000000000000
		 01000000 00000000 00005634127f0000`},

	{"place_region answer", OpPlaceRegion, FlagAnswer, 4, &Empty{},
		`1a00 0100 00000000 0400000000000000`},

	{"reg_mr", OpRegMR, 0, 4,
		&MR{PDN: 7, Access: AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead,
			Addr: 0x7f1234561000, Length: 0x1000, IOVA: 0x1122334455667788},
		`0600 0000 20000000 0400000000000000
		 07000000 07000000 00105634127f0000 0010000000000000 8877665544332211`},

	{"reg_mr answer", OpRegMR, FlagAnswer, 4, &Key{Key: 0x00ab12cd},
		`0600 0100 04000000 0400000000000000
		 cd12ab00`},

	{"reg_mr refused", OpRegMR, FlagAnswer | FlagError, 4,
		&Error{Code: CodeNotFound, Text: "PD 0x9: no such PD"},
		`0600 0300 16000000 0400000000000000
		 02000000 "PD 0x9: no such PD"`},

	{"create_channel answer", OpCreateChannel, FlagAnswer, 5, &Channel{ID: 3},
		`0800 0100 04000000 0500000000000000
		 03000000`},

	{"create_cq", OpCreateCQ, 0, 6,
		&CQ{Buf: 0x7f1234562000, DBRec: 0x7f1234570040, Handle: 0x7eedfacecafebeef,
			Channel: 3, Flags: CQIgnoreOverrun, LogSize: 8, LogCQE: 6, UAR: 1},
		`0a00 0000 28000000 0600000000000000
		 00205634127f0000 40005734127f0000 efbefecacefaed7e
		 03000000 02000000 08 06 0100 00000000`},

	{"create_cq compressed", OpCreateCQ, 0, 6,
		&CQ{Buf: 0x7f1234562000, DBRec: 0x7f1234570040, Flags: CQCompressed, LogSize: 8, LogCQE: 6, UAR: 1, MiniFormat: MiniChecksum},
		`0a00 0000 28000000 0600000000000000
		 00205634127f0000 40005734127f0000 0000000000000000
		 00000000 04000000 08 06 0100 01 000000`},

	{"create_cq answer", OpCreateCQ, FlagAnswer, 6, &CQN{CQN: 0x103},
		`0a00 0100 04000000 0600000000000000
		 03010000`},

	{"create_qp", OpCreateQP, 0, 7,
		&QP{PDN: 7, SendCQN: 0x103, RecvCQN: 0x104, UserIndex: 0xabcdef,
			SQ: 0x7f1234564000, RQ: 0x7f1234565000, DBRec: 0x7f1234570000,
			Type: QPTypeRC, LogSQ: 8, LogRQ: 7, LogRQStride: 4, UAR: 2, SignatureOn: 1, Scatter: ScatterRequester | ScatterResponder},
		`0c00 0000 38000000 0700000000000000
		 07000000 03010000 04010000 efcdab00
		 00405634127f0000 00505634127f0000 00005734127f0000
		 00 08 07 04 0200 00 01 00000000 00 00 03 00`},

	{"create_qp with srq", OpCreateQP, 0, 7,
		&QP{PDN: 7, SendCQN: 0x103, RecvCQN: 0x104, SQ: 0x7f1234564000, DBRec: 0x7f1234570000,
			Type: QPTypeUD, LogSQ: 8, NoReceive: 1, SRQN: 0x211, Managed: 1},
		`0c00 0000 38000000 0700000000000000
		 07000000 03010000 04010000 00000000
		 00405634127f0000 0000000000000000 00005734127f0000
		 02 08 00 00 0000 01 00 11020000 01 000000`},

	{"create_qp with a register", OpCreateQP, 0, 7,
		&QP{PDN: 7, SendCQN: 0x103, RecvCQN: 0x104, SQ: 0x7f1234564000, RQ: 0x7f1234565000, DBRec: 0x7f1234570000,
			Type: QPTypeUC, LogSQ: 8, LogRQ: 7, LogRQStride: 4, UAR: 2, BlueFlame: 4},
		`0c00 0000 38000000 0700000000000000
		 07000000 03010000 04010000 00000000
		 00405634127f0000 00505634127f0000 00005734127f0000
		 01 08 07 04 0200 00 00 00000000 00 04 0000`},

	{"create_qp answer", OpCreateQP, FlagAnswer, 7, &QPN{QPN: 0x102},
		`0c00 0100 04000000 0700000000000000
		 02010000`},

	{"modify_qp", OpModifyQP, 0, 8,
		&QPAttr{QPN: 0x102,
			Mask:  AttrState | AttrAV | AttrPathMTU | AttrRQPSN | AttrMaxDestRdAtom | AttrMinRNRTimer | AttrDestQPN,
			State: StateRTR, PathMTU: 3, MinRNRTimer: 12, MaxDestRdAtomic: 8,
			RQPSN: 0x123456, DestQPN: 0x105, GUID: 0xfedcba9876543210},
		`0d00 0000 38000000 0800000000000000
		 02010000 81911200 02 00 00 03 00 00 00 0c 00 08 0000
		 00000000 56341200 00000000 05010000 00000000 1032547698badcfe 00000000 00000000`},

	{"modify_qp answer", OpModifyQP, FlagAnswer, 8, &Empty{},
		`0d00 0100 00000000 0800000000000000`},

	{"query_qp answer", OpQueryQP, FlagAnswer, 9,
		&QPAttr{QPN: 0x102, Mask: 0x1fb1fb, State: 3, CurState: 4, Port: 1, PathMTU: 5, Timeout: 14,
			RetryCount: 7, RNRRetry: 6, MinRNRTimer: 12, MaxRdAtomic: 16, MaxDestRdAtomic: 8,
			PKeyIndex: 0x0201, Access: AccessRemoteWrite | AccessRemoteRead,
			RQPSN: 0x123456, SQPSN: 0x654321, DestQPN: 0x105, GUID: 0xfedcba9876543210, QKey: 0x80000001},
		`0e00 0100 38000000 0900000000000000
		 02010000 fbb11f00 03 04 01 05 0e 07 06 0c 10 08 0102
		 06000000 56341200 21436500 05010000 00000000 1032547698badcfe 01000080 00000000`},

	{"create_srq", OpCreateSRQ, 0, 10,
		&SRQ{PDN: 7, Limit: 16, Ring: 0x7f1234566000, DBRec: 0x7f1234570100, LogSize: 8, LogStride: 5},
		`1000 0000 20000000 0a00000000000000
		 07000000 10000000 00605634127f0000 00015734127f0000
		 08 05 000000000000`},

	{"open_xrcd answer", OpOpenXRCD, FlagAnswer, 19, &XRCD{XRCDN: 5},
		`1b00 0100 04000000 1300000000000000
		 05000000`},

	{"create_xsrq", OpCreateXSRQ, 0, 20,
		&XSRQ{SRQ: SRQ{PDN: 7, Limit: 16, Ring: 0x7f1234566000, DBRec: 0x7f1234570100, LogSize: 8, LogStride: 5},
			XRCDN: 5, CQN: 0x103, UserIndex: 0xabcdef},
		`1d00 0000 28000000 1400000000000000
		 07000000 10000000 00605634127f0000 00015734127f0000
		 08 05 0000 05000000 03010000 efcdab00`},

	{"create_target", OpCreateTarget, 0, 21, &XRCD{XRCDN: 5},
		`1e00 0000 04000000 1500000000000000
		 05000000`},

	{"open_target", OpOpenTarget, 0, 22, &Target{XRCDN: 5, QPN: 0x106},
		`1f00 0000 08000000 1600000000000000
		 05000000 06010000`},

	{"create_dct", OpCreateDCT, 0, 23, &DCT{PDN: 7, SRQN: 0x211, CQN: 0x103, UserIndex: 0xabcdef, Key: 0x1122334455667788},
		`2000 0000 18000000 1700000000000000
		 07000000 11020000 03010000 efcdab00 8877665544332211`},

	{"address answer", OpAddress, FlagAnswer, 24, &Address{GID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1}},
		`2100 0100 10000000 1800000000000000
		 00000000000000000000ffffc0000201`},

	{"set_peer", OpSetPeer, 0, 25, &Peer{GUID: 0x0123456789abcdef, QPN: 0x106, GID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 2}},
		`2200 0000 20000000 1900000000000000
		 efcdab8967452301 06010000 00000000000000000000ffffc0000202 00000000`},

	{"create_srq answer", OpCreateSRQ, FlagAnswer, 10, &SRQN{SRQN: 0x211},
		`1000 0100 04000000 0a00000000000000
		 11020000`},

	{"modify_srq", OpModifySRQ, 0, 11, &SRQLimit{SRQN: 0x211, Limit: 32},
		`1100 0000 08000000 0b00000000000000
		 11020000 20000000`},

	{"resize_cq", OpResizeCQ, 0, 12, &ResizeCQ{CQN: 0x103, LogSize: 10, LogCQE: 7, Buf: 0x7f1234658000},
		`1400 0000 10000000 0c00000000000000
		 03010000 0a 07 0000 00806534127f0000`},

	{"alloc_mw", OpAllocMW, 0, 13, &MW{PDN: 7, Kind: 2},
		`1500 0000 08000000 0d00000000000000
		 07000000 02 000000`},

	{"create_mkey", OpCreateMkey, 0, 14, &Mkey{PDN: 7, Entries: 4},
		`1600 0000 08000000 0e00000000000000
		 07000000 04000000`},

	{"rereg_mr", OpReregMR, 0, 15,
		&ReregMR{Key: 0x00ab12cd, What: ReregRange | ReregAccess,
			Access: AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind,
			Addr:   0x7f1234561000, Length: 0x2000, IOVA: 0x7f1234561000},
		`1700 0000 28000000 0f00000000000000
		 cd12ab00 05000000 00000000 1f000000
		 00105634127f0000 0020000000000000 00105634127f0000`},

	{"rereg_mr answer", OpReregMR, FlagAnswer, 15, &Key{Key: 0x00ab12ce},
		`1700 0100 04000000 0f00000000000000
		 ce12ab00`},

	{"open_events answer", OpOpenEvents, FlagAnswer, 16, &Empty{},
		`1800 0100 00000000 1000000000000000`},

	{"wake", OpWake, 0, 17, &Wake{Wakes: 1},
		`1900 0000 01000000 1100000000000000
		 01`},

	{"announce", OpAnnounce, 0, 25, &Announce{Value: "hello"},
		`2300 0000 05000000 1900000000000000
		 "hello"`},

	{"announce_to", OpAnnounceTo, 0, 27, &AnnounceTo{Audience: AudienceAll, Value: "hello"},
		`2500 0000 09000000 1b00000000000000
		 01000000 "hello"`},

	{"next_announcement", OpNextAnnouncement, 0, 26, &AnnouncementPlace{Device: 0x0123456789abcdef, Client: 7},
		`2400 0000 10000000 1a00000000000000
		 efcdab8967452301 07000000 00000000`},

	{"next_announcement answer", OpNextAnnouncement, FlagAnswer, 26, &Announcement{AnnouncementPlace{0x0123456789abcdef, 9}, "hello"},
		`2400 0100 11000000 1a00000000000000
		 efcdab8967452301 09000000 "hello"`},

	{"next_change", OpNextChange, 0, 32, &ChangesSince{Since: 300, Notify: 1},
		`2d00 0000 10000000 2000000000000000
		 2c01000000000000 01000000 00000000`},

	{"next_change answer", OpNextChange, FlagAnswer, 32, &Change{AnnouncementPlace{0x0123456789abcdef, 9}, 0, 301, 305},
		`2d00 0100 20000000 2000000000000000
		 efcdab8967452301 09000000 00000000 2d01000000000000 3101000000000000`},

	{"open_box answer", OpOpenBox, FlagAnswer, 28, &Box{Number: 0x1122334455667788},
		`2a00 0100 08000000 1c00000000000000
		 8877665544332211`},

	{"send_message", OpSendMessage, 0, 29, &BoxMessage{Device: 0x0123456789abcdef, Number: 0x1122334455667788, Value: "hello"},
		`2b00 0000 25000000 1d00000000000000
		 efcdab8967452301 8877665544332211 00000000000000000000000000000000 "hello"`},

	{"event", OpOpenEvents, FlagAnswer, 0, &Event{Kind: EventDrained, Number: 0x102},
		`1800 0100 68000000 0000000000000000
		 03000000 02010000 0000 00 00 00000000
		 000000000000000000000000000000000000000000000000
		 00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000`},

	{"explanation", OpOpenEvents, FlagAnswer, 0,
		&Event{Kind: EventExplanation, Number: 0x102, Index: 0x2a, HasWQE: 1, Suppressed: 3, Code: [24]byte{'d', 's', '-', 'z', 'e', 'r', 'o'},
			WQE: [64]byte{2: 0x2a, 3: 0x08, 5: 0x01, 6: 0x02, 11: 0x08}, Text: "ds is 0; at least 1 is kept"},
		`1800 0100 83000000 0000000000000000
		 00010000 02010000 2a00 01 00 03000000
		 "ds-zero" 0000000000000000000000000000000000
		 00002a08 00010200 00000008 00000000
		 000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
		 "ds is 0; at least 1 is kept"`},
}

// unhex reads hexadecimal digits and quoted text. It ignores blanks, and comments from # to the
// end of a line.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			if line[0] == '"' {
				quoted, err := strconv.QuotedPrefix(line)
				require.NoError(t, err, line)
				text, err := strconv.Unquote(quoted)
				require.NoError(t, err, line)
				out, line = append(out, text...), line[len(quoted):]
				continue
			}
			word, rest, _ := strings.Cut(line, " ")
			b, err := hex.DecodeString(word)
			require.NoError(t, err, line)
			out, line = append(out, b...), rest
		}
	}
	return out
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.bytes)
			assert.Equal(t, want, Append(nil, g.op, g.flags, g.tag, g.m), "Append")

			h, payload, err := ParseHeader(want)
			require.NoError(t, err)
			assert.Equal(t, Header{g.op, g.flags, uint32(len(want) - HeaderSize), g.tag}, h)
			got := blank(g.m)
			require.NoError(t, Parse(h.Op, payload, got))
			assert.Equal(t, g.m, got)
		})
	}
}

func TestGoldenCoversEveryMessage(t *testing.T) {
	missing := messages()
	for _, g := range golden {
		delete(missing, kind(g.m))
	}
	assert.Empty(t, missing)
}
