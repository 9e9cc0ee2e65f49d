package cqe

import "fmt"

// Syndrome says why work failed. It is byte 55 of an error entry. A Syndrome is also a
// Go error, so that errors.Is(err, cqe.RemoteAccess) works on the error of a completion.
type Syndrome uint8

// Syndromes (MLX5_CQE_SYNDROME_*). A device may write other values; verbs reports all
// of those as general errors.
const (
	LocalLength          Syndrome = 0x01
	LocalQPOp            Syndrome = 0x02
	LocalProtection      Syndrome = 0x04
	Flush                Syndrome = 0x05 // not executed: the QP was in error
	MWBind               Syndrome = 0x06
	BadResponse          Syndrome = 0x10
	LocalAccess          Syndrome = 0x11
	RemoteInvalidRequest Syndrome = 0x12
	RemoteAccess         Syndrome = 0x13
	RemoteOperation      Syndrome = 0x14
	TransportRetry       Syndrome = 0x15 // no answer after retry_count tries
	RNRRetry             Syndrome = 0x16 // receiver not ready after rnr_retry tries
	RemoteAborted        Syndrome = 0x22
)

// syndromes is indexed by syndrome. A syndrome without text is not documented.
var syndromes = [256]struct {
	text, name string
	status     WCStatus
}{
	LocalLength:          {"local length error", "LocalLength", StatusLocLen},
	LocalQPOp:            {"local QP operation error", "LocalQPOp", StatusLocQPOp},
	LocalProtection:      {"local protection error", "LocalProtection", StatusLocProt},
	Flush:                {"work request flushed", "Flush", StatusFlush},
	MWBind:               {"memory window bind error", "MWBind", StatusMWBind},
	BadResponse:          {"bad response error", "BadResponse", StatusBadResp},
	LocalAccess:          {"local access error", "LocalAccess", StatusLocAccess},
	RemoteInvalidRequest: {"remote invalid request error", "RemoteInvalidRequest", StatusRemInvReq},
	RemoteAccess:         {"remote access error", "RemoteAccess", StatusRemAccess},
	RemoteOperation:      {"remote operation error", "RemoteOperation", StatusRemOp},
	TransportRetry:       {"transport retry counter exceeded", "TransportRetry", StatusRetryExc},
	RNRRetry:             {"RNR retry counter exceeded", "RNRRetry", StatusRNRRetryExc},
	RemoteAborted:        {"remote aborted error", "RemoteAborted", StatusRemAbort},
}

// Error returns the syndrome in words.
func (s Syndrome) Error() string {
	if t := syndromes[s].text; t != "" {
		return t
	}
	return fmt.Sprintf("unknown error, syndrome 0x%02x", uint8(s))
}

// Name returns the name of the constant, or "Syndrome(0x7f)".
func (s Syndrome) Name() string {
	if n := syndromes[s].name; n != "" {
		return n
	}
	return fmt.Sprintf("Syndrome(0x%02x)", uint8(s))
}

// Status returns the verbs status of s, or [StatusGeneral] if verbs has none for s.
func (s Syndrome) Status() WCStatus {
	if st := syndromes[s].status; st != StatusSuccess {
		return st
	}
	return StatusGeneral
}

// WorkError is the error of one work request that failed. Unwrap returns its [Syndrome].
type WorkError struct {
	QPN     uint32   // 24 bits
	Receive bool     // the request was a receive, not a send
	Index   uint16   // wqe_counter: first block of the send WQE, or index of the receive
	Opcode  uint8    // opcode of the send WQE; 0 for a receive
	Cause   Syndrome // why the request failed
	Vendor  uint8    // vendor_err: the vendor's own syndrome; no meaning is documented
	ID      uint64   // wr_id that the poster gave
}

// Error returns, for example, "qp 0x000abc wqe 7 id 42: remote access error (vendor
// 0x88)". For a receive it returns "qp 0x000abc receive 0 id 1: …".
func (e *WorkError) Error() string { return fmt.Sprintf("%s (vendor 0x%02x)", e.Brief(), e.Vendor) }

// Brief is Error without the vendor's syndrome.
func (e *WorkError) Brief() string {
	what := "wqe"
	if e.Receive {
		what = "receive"
	}
	return fmt.Sprintf("qp 0x%06x %s %d id %d: %s", e.QPN, what, e.Index, e.ID, e.Cause.Error())
}

// Unwrap returns the cause.
func (e *WorkError) Unwrap() error { return e.Cause }
