package control

import "fmt"

// Code is the kind of a refusal. The number of a removed kind is never used for another kind.
type Code uint32

const (
	CodeInvalid     Code = 1 // a value is out of its range or of the wrong kind
	CodeNotFound    Code = 2 // no such object of this client
	CodeBusy        Code = 3 // something still uses the object
	CodeLimit       Code = 4 // the client already has as many such objects as it may have
	CodeState       Code = 5 // not possible in the QP's state
	CodeVersion     Code = 6 // wrong protocol version or magic
	CodeUnsupported Code = 7 // unknown operation, type or feature
	CodeMemory      Code = 8 // memory could not be allocated or may not be used
	CodeDenied      Code = 9 // the client's user may not do this
)

// CodeErrno and a number above 0 is the code of a refusal by a rule of faults, as a kernel refuses with that
// errno of Linux.
const CodeErrno Code = 1 << 16

// Errno returns the errno of a code from CodeErrno on; 0 for other codes.
func (c Code) Errno() int {
	if c >= CodeErrno && c < CodeErrno+4096 {
		return int(c - CodeErrno)
	}
	return 0
}

var codeNames = map[Code]string{
	CodeInvalid: "invalid", CodeNotFound: "not found", CodeBusy: "busy", CodeLimit: "limit",
	CodeState: "state", CodeVersion: "version", CodeUnsupported: "unsupported", CodeMemory: "memory",
	CodeDenied: "denied",
}

// String returns the code's name in docs/CONTROL.md.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	if n := c.Errno(); n != 0 {
		return fmt.Sprintf("errno %d", n)
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// An Error is a refusal by the device. Text is a sentence that names the
// value, the limit and the rule.
type Error struct {
	Code Code
	Text string
}

func (e *Error) walk(w walker) {
	w.u32("code", (*uint32)(&e.Code))
	w.text("text", &e.Text)
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is reports whether target is an Error with the same code, so that errors.Is compares codes.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Text == "" || t.Text == e.Text)
}

// Errorf returns an Error with a formatted text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

var opNames = map[Op]string{
	OpHello: "hello", OpAllocPD: "alloc_pd", OpDeallocPD: "dealloc_pd",
	OpCreateRegion: "create_region", OpPlaceRegion: "place_region", OpDropRegion: "drop_region",
	OpRegMR: "reg_mr", OpDeregMR: "dereg_mr",
	OpCreateChannel: "create_channel", OpDestroyChannel: "destroy_channel",
	OpCreateCQ: "create_cq", OpDestroyCQ: "destroy_cq",
	OpCreateSRQ: "create_srq", OpModifySRQ: "modify_srq", OpQuerySRQ: "query_srq",
	OpDestroySRQ: "destroy_srq",
	OpResizeCQ:   "resize_cq", OpAllocMW: "alloc_mw", OpCreateMkey: "create_mkey", OpReregMR: "rereg_mr",
	OpOpenEvents: "open_events",
	OpWake:       "wake",
	OpOpenXRCD:   "open_xrcd", OpCloseXRCD: "close_xrcd", OpCreateXSRQ: "create_xsrq",
	OpCreateTarget: "create_target", OpOpenTarget: "open_target",
	OpCreateDCT: "create_dct", OpAddress: "address", OpSetPeer: "set_peer", OpAnnounce: "announce",
	OpNextAnnouncement: "next_announcement", OpAnnounceTo: "announce_to", OpWatch: "watch",
	OpSetFaults: "set_faults", OpQueryFault: "query_fault", OpQueryPort: "query_port",
	OpOpenBox: "open_box", OpSendMessage: "send_message", OpNextMessage: "next_message",
	OpNextChange: "next_change",
	OpCreateQP:   "create_qp", OpModifyQP: "modify_qp", OpQueryQP: "query_qp", OpDestroyQP: "destroy_qp",
}

// String returns the operation's name in docs/CONTROL.md.
func (o Op) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return fmt.Sprintf("operation %d", uint16(o))
}
