package wqe

// A Kind is a kind of segment.
type Kind uint8

// The kinds of segment that follow the control segment or fill a receive entry.
const (
	KindNone Kind = iota
	KindRaddr
	KindData   // a pointer
	KindInline // bytes in the WQE, after a header of InlineHead bytes
	KindAtomic
	KindMaskedCS4
	KindMaskedCS8
	KindMaskedFA4
	KindMaskedFA8
	KindAV        // all 48 bytes of an address vector
	KindCompactAV // the first 16 bytes of an address vector
	KindXRC
	KindEth // an Ethernet segment with its inline header
	KindWait
	KindWaitData
	KindUMRCtrl
	KindMkeyContext
	KindKLM
	KindRepeatBlock
	KindRepeatEntry
	KindPad // zeros from the end of a list to the end of its block
	KindSetPSV
	KindMMOMeta
	KindTagMatching
	KindSRQNext
	KindEnd    // the terminator of a receive list
	KindRaw    // units of an opcode without a public layout
	KindUnused // units that the opcode does not use
)

// kinds has the name and the size in bytes of each kind; 0 stands for a size that
// varies.
var kinds = [256]struct {
	name string
	size uint8
}{
	KindNone:        {"none", 0},
	KindRaddr:       {"raddr", RaddrSize},
	KindData:        {"data", DataSize},
	KindInline:      {"inline", 0},
	KindAtomic:      {"atomic", AtomicSize},
	KindMaskedCS4:   {"masked_cs", MaskedCS4Size},
	KindMaskedCS8:   {"masked_cs", MaskedCS8Size},
	KindMaskedFA4:   {"masked_fa", MaskedFA4Size},
	KindMaskedFA8:   {"masked_fa", MaskedFA8Size},
	KindAV:          {"av", AVSize},
	KindCompactAV:   {"av", CompactAVSize},
	KindXRC:         {"xrc", XRCSize},
	KindEth:         {"eth", 0},
	KindWait:        {"wait", WaitSize},
	KindWaitData:    {"wait_data", WaitDataSize},
	KindUMRCtrl:     {"umr_ctrl", UMRCtrlSize},
	KindMkeyContext: {"mkey_context", MkeyContextSize},
	KindKLM:         {"klm", KLMSize},
	KindRepeatBlock: {"repeat_block", RepeatBlockSize},
	KindRepeatEntry: {"repeat_ent", RepeatEntrySize},
	KindPad:         {"pad", 0},
	KindSetPSV:      {"set_psv", SetPSVSize},
	KindMMOMeta:     {"mmo_meta", MMOMetaSize},
	KindTagMatching: {"tag_matching", TagMatchingSize},
	KindSRQNext:     {"srq_next", SRQNextSize},
	KindEnd:         {"end", DataSize},
	KindRaw:         {"raw", 0},
	KindUnused:      {"unused", 0},
}

// String returns the name that golden vectors use, such as "raddr".
func (k Kind) String() string { return kinds[k].name }

// Size returns the size of such a segment in bytes, or 0 if the size varies.
func (k Kind) Size() int { return int(kinds[k].size) }
