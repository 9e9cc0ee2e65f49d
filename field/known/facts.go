package known

import (
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// Facts is what one line of text says about a completion. A pointer is nil, and a text empty,
// if the line does not say it.
type Facts struct {
	Program   string        // the program that prints such lines
	Status    *cqe.WCStatus // status of verbs, by number or text
	Syndrome  *cqe.Syndrome // byte 55 of the CQE
	Vendor    *uint8        // byte 54 of the CQE
	QPN       *uint32       // 24 bits; also the number of an SQ or RQ
	CQN       *uint32
	Counter   *uint16 // wqe_counter
	WQEOpcode *uint8
	Side      string // "requester" or "responder"
	Code      string // a code of docs/EXPLANATIONS.md

	// Command is the syndrome of a command of the firmware. It has nothing to do with CQEs.
	Command uint32
}

// Fails reports whether the line says that work has failed: it has a syndrome, the status of
// an error, or a code.
func (f *Facts) Fails() bool {
	return f.Syndrome != nil || f.Code != "" || (f.Status != nil && *f.Status != cqe.StatusSuccess)
}

// Empty reports whether the line says nothing about a completion.
func (f *Facts) Empty() bool {
	return !f.Fails() && !f.Places() && f.Vendor == nil && f.Command == 0
}

// Places reports whether the line says which queue, WQE or side the failure belongs to.
func (f *Facts) Places() bool {
	queue := f.QPN != nil || f.CQN != nil || f.Side != ""
	return queue || f.Counter != nil || f.WQEOpcode != nil
}

// Failure returns what the line says about a failure, and whether it says a syndrome or a status that
// has one.
func (f *Facts) Failure() (Failure, bool) {
	s, ok := f.Cause()
	out := Failure{Syndrome: s, Vendor: f.Vendor}
	out.Requester, out.Responder = f.Side == "requester", f.Side == "responder"
	if f.WQEOpcode != nil && *f.WQEOpcode != 0 && !out.Responder { // receives have 0 there, and so have NOPs
		op := wqe.Opcode(*f.WQEOpcode)
		out.Requester, out.Opcode = true, &op
	}
	return out, ok
}

// Cause returns the syndrome of the line, or the one that verbs reports as its status.
func (f *Facts) Cause() (cqe.Syndrome, bool) {
	if f.Syndrome != nil {
		return *f.Syndrome, true
	}
	if f.Status != nil {
		return OfStatus(*f.Status)
	}
	return 0, false
}

const number = `(0x[0-9a-f]+|[0-9]+)\b`

var (
	vendorInLine = regexp.MustCompile(
		`\bvend(?:or)?(?:[_ ]?err(?:or)?)?(?:[_ ]?synd(?:rome)?)?["']?\s*[:= ]\s*\(?` + number)
	// ASO queues of the kernel print hexadecimal digits without 0x.
	bareVendor   = regexp.MustCompile(`\bvendor_err_synd=([0-9a-f]{1,2})\s*$`)
	bareSyndrome = regexp.MustCompile(`\bsyndrome=([0-9a-f]{1,2})\s*$`)
	syndInLine   = regexp.MustCompile(`(?:^|[^a-z_])synd(?:rome?)?["']?\s*[:= ]\s*(\(?)` + number)
	statusNumber = regexp.MustCompile(`(?:\bstatus(?:_value)?["']?\s*[:=]?\s*(?:is\s+)?|` +
		`\bwc error:?\s*|\bcompletion with error\s+)` + number)
	statusName = regexp.MustCompile(`\b(?:IBV?_WC_)([A-Z_]+)`)
	qpInLine   = regexp.MustCompile(`\b(?:qpn?|qp_num|sqn|rqn|qn|queue)\b\s*[:=]?\s*` + number)
	opcodeQPN  = regexp.MustCompile(`\bs?_?wqe_opcode_qpn\s*[:=]?\s*` + number)
	cqInLine   = regexp.MustCompile(`\bcqn\b\s*[:=]?\s*` + number)
	counter    = regexp.MustCompile(`\bwqe(?:_counter)?(?:\s*[:=]?\s*|\[)` + number)
	cqeOpcode  = regexp.MustCompile(`\b(?:opcode|cqe error)\s+(0xd|0xe|13|14)\b`)
	codeInLine = regexp.MustCompile(`(?:\(|\bcode=)([a-z]+(?:-[a-z]+)*)(?:\)\s*$|\s|$)`)
	aboutWork  = regexp.MustCompile(`wr_id|complet|cqe|\bwc\b|vend|synd|prov_err|failed status`)
)

// programs goes from what a line has to the program that prints it. The first row that fits
// counts. The names of files are those of the programs' sources.
var programs = []struct{ has, name string }{
	{"nicless: explanation", "nicless"},
	{"mlx5_handle_error_cqe", "the kernel (mlx5_ib)"},
	{"mlx5_poll_one", "the kernel (mlx5_ib)"},
	{"dump_cqe:", "the kernel (mlx5_ib)"},
	{"dump error cqe", "the kernel (mlx5_ib)"},
	{"Error cqe on cqn", "the kernel (mlx5_core)"},
	{"WQE DUMP:", "the kernel (mlx5_core)"},
	{"ib_mlx5_log.c", "UCX"},
	{"UCX ", "UCX"},
	{"NET/IB", "NCCL"},
	{"cqe: syndrome=", "libxlio"},
	{"hw_synd_type=", "NVSHMEM or DOCA GPUNetIO"},
	{"got completion with err:", "NVSHMEM or DOCA GPUNetIO"},
	{"got completion with error:", "libmlx5"},
	{"MLX5 Error", "DPDK"},
	{"CQE error", "DPDK"},
	{"PyverbsRDMAError", "the tests of rdma-core"},
	{"syndrom 0x", "perftest"},
	{"Failed status", "a program of rdma-core or perftest"},
	{"fi_cq_readerr", "libfabric"},
	{"libfabric", "libfabric"},
	{"mlx5_core", "the kernel (mlx5_core)"},
}

var lineParts = [...]string{
	"ynd", "end", "rror", "RROR", "_WC_", "cq", "CQ", "wqe", "QP",
	"code=", "explan", "xceeded", "lush", "bort",
}

// interesting is a cheap test that almost all lines of a log fail.
func interesting(line string) bool {
	for _, part := range lineParts {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// ParseLine returns what a line says. The line may have any bytes; it should be short, as
// lines of logs are.
func ParseLine(line string) (f Facts) {
	if !interesting(line) {
		return f
	}
	for _, p := range programs {
		if strings.Contains(line, p.has) {
			f.Program = p.name
			break
		}
	}
	lower, ours := strings.ToLower(line), f.Program == "nicless" || strings.Contains(line, "code=")
	f.parseSyndrome(lower)
	f.parseStatus(line, lower)
	f.reconcile()
	f.parsePlace(lower)
	if m := match(codeInLine, lower, "(", "code="); m != nil && ours {
		if _, ok := Explain(m[1]); ok {
			f.Code = m[1]
		}
	}
	return f
}

func (f *Facts) parseSyndrome(line string) {
	kernel := strings.HasPrefix(f.Program, "the kernel")
	if m := match(bareVendor, line, "vendor_err_synd="); m != nil && kernel {
		f.Vendor = small("0x" + m[1])
		return
	}
	if m := match(bareSyndrome, line, "syndrome="); m != nil && kernel {
		f.setSyndrome(small("0x" + m[1]))
		return
	}
	if at := vendorAt(line); at != nil {
		f.Vendor = small(line[at[2]:at[3]])
		line = line[:at[0]] + strings.Repeat(" ", at[1]-at[0]) + line[at[1]:]
	}
	if m := match(syndInLine, line, "synd"); m != nil {
		f.setSyndrome(small(m[2]))
		if n, ok := parse(m[2]); ok && f.Syndrome == nil && (m[1] == "(" || n > 0xff) {
			// "syndrome (0x4bb88f)" is how the kernel prints those of commands. One of a CQE is a byte.
			f.Command = uint32(n)
		}
	}
}

func (f *Facts) setSyndrome(v *uint8) {
	if v != nil && *v != 0 {
		s := cqe.Syndrome(*v)
		f.Syndrome = &s
	}
}

func (f *Facts) parseStatus(line, lower string) {
	if m := match(statusName, line, "_WC_"); m != nil {
		if s, ok := statusByName(m[1]); ok {
			f.Status = &s
			return
		}
	}
	if s, ok := statusInText(lower); ok {
		f.Status = &s
		return
	}
	m := match(statusNumber, lower, "status", "wc error", "with error")
	if m != nil && aboutWork.MatchString(lower) {
		// Without a name, only statuses that work requests of mlx5 get are taken.
		if n := small(m[1]); n != nil {
			s := cqe.WCStatus(*n)
			if _, ok := OfStatus(s); ok || s == cqe.StatusSuccess || s == cqe.StatusGeneral {
				f.Status = &s
			} else if _, _, ok := AboutVendor(cqe.Syndrome(*n), deref(f.Vendor)); ok {
				f.setSyndrome(n) // some drivers print the syndrome as the status
			}
		}
	}
}

// reconcile moves a syndrome that contradicts the status to where it belongs: perftest and UCX
// over verbs print the vendor byte as "syndrom" or "syndrome".
func (f *Facts) reconcile() {
	if f.Status == nil || f.Syndrome == nil || f.Vendor != nil || f.Syndrome.Status() == *f.Status {
		return
	}
	v := uint8(*f.Syndrome)
	f.Vendor, f.Syndrome = &v, nil
}

// parsePlace reads numbers of queues and WQEs. A decimal s_wqe_opcode_qpn is that of a debugger, which
// prints the fields of a struct (raw): big-endian ones as the host reads them.
func (f *Facts) parsePlace(line string) {
	raw := false
	if m := match(opcodeQPN, line, "opcode_qpn"); m != nil {
		if n, ok := parse(m[1]); ok && n <= 0xffffffff {
			raw = !strings.HasPrefix(m[1], "0x")
			if raw {
				n = uint64(bits.ReverseBytes32(uint32(n)))
			}
			op, qpn := uint8(n>>24), uint32(n&0xffffff)
			f.WQEOpcode, f.QPN = &op, &qpn
		}
	} else if m := match(qpInLine, line, "qp", "qn", "queue"); m != nil {
		if n, ok := parse(m[1]); ok && n <= 0xffffff {
			qpn := uint32(n)
			f.QPN = &qpn
		}
	}
	if m := match(cqInLine, line, "cqn"); m != nil {
		if n, ok := parse(m[1]); ok && n <= 0xffffff {
			cqn := uint32(n)
			f.CQN = &cqn
		}
	}
	if m := match(counter, line, "wqe"); m != nil {
		if n, ok := parse(m[1]); ok && n <= 0xffff {
			c := uint16(n)
			if raw {
				c = bits.ReverseBytes16(c)
			}
			f.Counter = &c
		}
	}
	switch {
	case strings.Contains(line, "requestor error"):
		f.Side = "requester"
	case strings.Contains(line, "responder error"):
		f.Side = "responder"
	default:
		if m := match(cqeOpcode, line, "opcode", "cqe error"); m != nil {
			f.Side = map[string]string{"0xd": "requester", "13": "requester"}[m[1]]
			if f.Side == "" {
				f.Side = "responder"
			}
		}
	}
}

// match is FindStringSubmatch, after a cheaper test: the line has one of the parts.
func match(re *regexp.Regexp, line string, parts ...string) []string {
	for _, p := range parts {
		if strings.Contains(line, p) {
			return re.FindStringSubmatch(line)
		}
	}
	return nil
}

// Add takes over what g says and f does not.
func (f *Facts) Add(g Facts) {
	take(&f.Status, g.Status)
	take(&f.Syndrome, g.Syndrome)
	take(&f.Vendor, g.Vendor)
	take(&f.QPN, g.QPN)
	take(&f.CQN, g.CQN)
	take(&f.Counter, g.Counter)
	take(&f.WQEOpcode, g.WQEOpcode)
	for _, t := range [...]struct {
		to   *string
		from string
	}{{&f.Program, g.Program}, {&f.Side, g.Side}, {&f.Code, g.Code}} {
		if *t.to == "" {
			*t.to = t.from
		}
	}
	if f.Command == 0 {
		f.Command = g.Command
	}
}

func take[T any](to **T, from *T) {
	if *to == nil {
		*to = from
	}
}

func deref(p *uint8) uint8 {
	if p == nil {
		return 0
	}
	return *p
}

// parse reads a number as these programs print them: decimal, or hexadecimal after 0x.
func parse(s string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.ToLower(s), 0, 64)
	if err != nil { // such as 08, which strconv takes for octal
		n, err = strconv.ParseUint(s, 10, 64)
	}
	return n, err == nil
}

// small reads a number of one byte; nil if it is larger.
func small(s string) *uint8 {
	n, ok := parse(s)
	if !ok || n > 0xff {
		return nil
	}
	b := uint8(n)
	return &b
}

func vendorAt(line string) []int {
	if !strings.Contains(line, "vend") {
		return nil
	}
	return vendorInLine.FindStringSubmatchIndex(line)
}
