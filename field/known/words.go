package known

import (
	"strings"

	"github.com/nicless/nicless/cqe"
)

// statusWords goes from words of programs to statuses. Rows that contain others come first.
// Texts are those of ibv_wc_status_str, of ib_wc_status_msg of the kernel, and of UCX
// (ib_mlx5_log.c), in lower case. Those that other texts have too, such as "operation error", are not here.
var statusWords = []struct {
	text   string
	status cqe.WCStatus
}{
	{"rnr retry counter exceeded", cqe.StatusRNRRetryExc},
	{"rnr retry count exceeded", cqe.StatusRNRRetryExc},
	{"receive-no-ready retry count exceeded", cqe.StatusRNRRetryExc},
	{"receiver-not-ready retry count exceeded", cqe.StatusRNRRetryExc},
	{"transport retry count", cqe.StatusRetryExc}, // also "counter"
	{"retry exceeded error", cqe.StatusRetryExc},
	{"local length error", cqe.StatusLocLen},
	{"local qp operation error", cqe.StatusLocQPOp},
	{"local protection error", cqe.StatusLocProt},
	{"work request flushed", cqe.StatusFlush},
	{"wr flushed", cqe.StatusFlush},
	{"memory window bind error", cqe.StatusMWBind},
	{"memory management operation error", cqe.StatusMWBind},
	{"memory bind operation error", cqe.StatusMWBind},
	{"memory bind error", cqe.StatusMWBind},
	{"bad response error", cqe.StatusBadResp},
	{"local access error", cqe.StatusLocAccess},
	{"remote invalid request error", cqe.StatusRemInvReq},
	{"remote access error", cqe.StatusRemAccess},
	{"remote operation error", cqe.StatusRemOp},
	{"remote aborted", cqe.StatusRemAbort},
	{"remote side aborted", cqe.StatusRemAbort},
}

// statusInText returns the status whose words a line in lower case has.
func statusInText(line string) (cqe.WCStatus, bool) {
	for _, w := range statusWords {
		if strings.Contains(line, w.text) {
			return w.status, true
		}
	}
	return 0, false
}

// statusByName returns the status with a name of enum ibv_wc_status, without IBV_WC_.
func statusByName(name string) (cqe.WCStatus, bool) {
	for s := range 256 {
		if status := cqe.WCStatus(s); status != cqe.StatusNone && status.String() == name {
			return status, true
		}
	}
	return 0, false
}

// syndromeNames are the names of mlx5dv.h (MLX5_CQE_SYNDROME_*, without this prefix), which
// differ from those of statuses.
var syndromeNames = map[string]cqe.Syndrome{
	"LOCAL_LENGTH_ERR":        cqe.LocalLength,
	"LOCAL_QP_OP_ERR":         cqe.LocalQPOp,
	"LOCAL_PROT_ERR":          cqe.LocalProtection,
	"WR_FLUSH_ERR":            cqe.Flush,
	"MW_BIND_ERR":             cqe.MWBind,
	"BAD_RESP_ERR":            cqe.BadResponse,
	"LOCAL_ACCESS_ERR":        cqe.LocalAccess,
	"REMOTE_INVAL_REQ_ERR":    cqe.RemoteInvalidRequest,
	"REMOTE_ACCESS_ERR":       cqe.RemoteAccess,
	"REMOTE_OP_ERR":           cqe.RemoteOperation,
	"TRANSPORT_RETRY_EXC_ERR": cqe.TransportRetry,
	"RNR_RETRY_EXC_ERR":       cqe.RNRRetry,
	"REMOTE_ABORTED_ERR":      cqe.RemoteAborted,
}
