package apitest

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// Errors name the object, the field that sets the limit, and the remedy. They begin with the
// name of the package once.
func TestErrorTexts(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	ud, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, Type: nicless.UD})
	require.NoError(t, err)
	sges := make([]nicless.SGE, 5)
	connect := func(c nicless.Connection) error { return b.a.Connect(b.b.Descriptor(), c) }
	for _, row := range []struct {
		err  error
		text string
	}{
		{b.a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: sges}), "nicless: 5 SGEs, at most 4 (QPConfig.MaxSendSGE)"},
		{b.a.PostSend(&nicless.SendWR{Op: nicless.Write, Data: make([]byte, 200)}), "nicless: 200 inline bytes, at most 60 (QPConfig.MaxInline)"},
		{b.a.PostRecv(&nicless.RecvWR{SGE: sges}), "nicless: 5 SGEs in a receive, at most 4 (QPConfig.MaxRecvSGE, SRQConfig.MaxSGE)"},
		{ud.PostSend(&nop), "nicless: queue pair is not connected: Activate it first, it is UD"},
		{connect(nicless.Connection{RNRRetry: -2}), "nicless: connect: RNRRetry -2; 1 to 7 and NoRetry (-1) are possible"},
		{connect(nicless.Connection{Timeout: -1}), "nicless: connect: Timeout -1; 1 to 31 are possible"},
		{connect(nicless.Connection{}), fmt.Sprintf(
			"nicless: connect: %v (RTS) is connected already, with QP %#06x; make another, or Modify it to RST and INIT", b.a, b.b.QPN())},
	} {
		require.EqualError(t, row.err, row.text)
	}
	_, err = b.pd.RegisterMemory(0, nicless.FullAccess)
	require.EqualError(t, err, "nicless: register memory: 0 bytes; 1 to 1099511627776 are possible")

	require.NoError(t, ud.Activate())
	require.ErrorContains(t, ud.Activate(), "is active already")
	b.fault(t)
	err = connect(nicless.Connection{})
	require.ErrorIs(t, err, nicless.ErrState)
	require.ErrorContains(t, err, "(ERR) is in error")
	require.NoError(t, b.ctx.Close())
	_, err = b.ctx.AllocPD()
	require.ErrorIs(t, err, nicless.ErrClosed)
	require.EqualError(t, err, "nicless: PD: object is closed")
}

// String methods return short texts, although a queue has thousands of bytes.
func TestStrings(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	srq, err := b.pd.CreateSRQ(nicless.SRQConfig{})
	require.NoError(t, err)
	w, err := b.pd.AllocWindow(2)
	require.NoError(t, err)
	k, err := b.pd.CreateListKey(1)
	require.NoError(t, err)
	for want, got := range map[string]any{
		fmt.Sprintf("QP 0x%06x RC", b.a.QPN()):                                             b.a,
		fmt.Sprintf("CQ 0x%06x", b.cq.CQN()):                                               b.cq,
		fmt.Sprintf("SRQ 0x%06x", srq.SRQN()):                                              srq,
		fmt.Sprintf("MR of %d bytes at %#x, key 0x%08x", mrSize, b.mr.Addr(), b.mr.LKey()): b.mr,
		"LocalWrite|RemoteRead":                                                            nicless.LocalWrite | nicless.RemoteRead,
		"RemoteWrite|0x40":                                                                 nicless.RemoteWrite | 0x40,
		"none":                                                                             nicless.Access(0),
		"RTS, timeout 67.108864ms":                                                         nicless.Attr{Mask: nicless.AttrState | nicless.AttrTimeout, State: nicless.StateRTS, Timeout: 14},
		"key-unknown: qp 0x000abc wqe 7: text":                                             nicless.Explanation{Code: "key-unknown", Number: 0xabc, Index: 7, Of: "wqe", Text: "text"},
		"receive-none: qp 0x000abc receive 7: text":                                        nicless.Explanation{Code: "receive-none", Number: 0xabc, Index: 7, Of: "receive", Text: "text"},
		"cq-overrun: cq 0x000abc cqe 7: text":                                              nicless.Explanation{Code: "cq-overrun", Number: 0xabc, Index: 7, Of: "cqe", Text: "text"},
		fmt.Sprintf("context of engine %016x", b.ctx.Device()):                             b.ctx,
		fmt.Sprintf("window of type 2, rkey 0x%08x", w.RKey()):                             w,
		fmt.Sprintf("list key 0x%08x", k.LKey()):                                           k,
		"AttrState|AttrQKey|0x40000000":                                                    nicless.AttrState | nicless.AttrQKey | 1<<30,
		"Fence|Solicited|0x80":                                                             nicless.Fence | nicless.Solicited | 0x80,
		"0":                                                                                nicless.Flags(0),
		"QP 0x000abc: access_error":                                                        nicless.Event{Kind: nicless.EventAccessError, Number: 0xabc},
		"SRQ 0x000abc: srq_limit (3 events before it were lost)":                           nicless.Event{Kind: nicless.EventSRQLimit, Number: 0xabc, Lost: 3},
		"id 7: RDMA_WRITE SUCCESS, QP 0x000abc":                                            nicless.Completion{WC: cqe.WC{Opcode: cqe.WCRDMAWrite, QPN: 0xabc}, ID: 7},
		"id 7: RECV SUCCESS, QP 0x000abc, 12 bytes, immediate 0x00000005":                  nicless.Completion{WC: cqe.WC{Kind: cqe.RespSendImm, Opcode: cqe.WCRecv, QPN: 0xabc, ByteLen: 12, Imm: 5, Flags: cqe.WCWithImm}, ID: 7},
	} {
		require.Equal(t, want, fmt.Sprint(got))
	}
	a, err := b.a.Query()
	require.NoError(t, err)
	require.Contains(t, a.String(), fmt.Sprintf("RTS, access of the peer RemoteWrite|RemoteRead|RemoteAtomic, qkey 0x00000000, peer QP 0x%06x, of device ", b.b.QPN()))
	require.Contains(t, a.String(), "path MTU 4096, timeout 67.108864ms, retries 7, RNR retries for ever, ")
}
