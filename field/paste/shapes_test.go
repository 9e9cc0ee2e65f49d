package paste_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/paste"
)

// A shape is a text as a program prints it, and what must be found. The text is written for the
// test; the source of its shape is in the name or beside it.
type shape struct {
	name     string
	text     string
	kind     paste.Kind
	syndrome cqe.Syndrome
	vendor   int // -1: the text does not say it
	qpn      uint32
	counter  int // -1: the text does not say it
	program  string
}

// The CQE of most shapes: a WRITE of queue pair 0x001234, block 7, was refused by the peer.
const (
	remoteAccess = cqe.RemoteAccess
	rowOfZeros   = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
	rowOfError   = "00 00 00 00 b1 00 88 13 08 00 12 34 00 07 3c d2"
	wordsOfZeros = "00000000 00000000 00000000 00000000"
	wordsOfError = "00000000 b1008813 08001234 00073cd2"
)

var shapes = []shape{
	// drivers/infiniband/hw/mlx5/cq.c: dump_cqe, mlx5_handle_error_cqe; dmesg's time stamps
	{"kernel, mlx5_ib", `
[  408.372201] infiniband mlx5_0: mlx5_handle_error_cqe:332:(pid 0): WC error: 10, Message: remote access error
[  408.380181] infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe
[  408.380187] 00000000: ` + rowOfZeros + `
[  408.380189] 00000010: ` + rowOfZeros + `
[  408.380191] 00000020: ` + rowOfZeros + `
[  408.380192] 00000030: ` + rowOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "the kernel (mlx5_ib)"},
	{"kernel, mlx5_ib, journalctl", `
Nov 26 10:00:01 node7 kernel: infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe
Nov 26 10:00:01 node7 kernel: 00000000: ` + rowOfZeros + `
Nov 26 10:00:01 node7 kernel: 00000010: ` + rowOfZeros + `
Nov 26 10:00:01 node7 kernel: 00000020: ` + rowOfZeros + `
Nov 26 10:00:01 node7 kernel: 00000030: ` + rowOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "the kernel (mlx5_ib)"},
	// before 4.16 the driver printed words, pr_info("%08x %08x %08x %08x\n")
	{"kernel, mlx5_ib, words, dmesg -T", `
[Thu Nov 26 10:00:01 2015] mlx5_0:dump_cqe:263:(pid 0): dump error cqe
[Thu Nov 26 10:00:01 2015] ` + wordsOfZeros + `
[Thu Nov 26 10:00:01 2015] ` + wordsOfZeros + `
[Thu Nov 26 10:00:01 2015] ` + wordsOfZeros + `
[Thu Nov 26 10:00:01 2015] ` + wordsOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "the kernel (mlx5_ib)"},
	// mlx5_poll_one, with dynamic debug; linux-nvme/nvme-cli issue 3268
	{"kernel, mlx5_poll_one", `
[15601.662156] infiniband rocep33s0f0: mlx5_poll_one:527:(pid 0): Responder error cqe on cqn 0x406:
[15601.662158] infiniband rocep33s0f0: mlx5_poll_one:530:(pid 0): syndrome 0x4, vendor syndrome 0x32`,
		paste.Text, cqe.LocalProtection, 0x32, 0, -1, "the kernel (mlx5_ib)"},
	// drivers/net/ethernet/mellanox/mlx5/core/en: mlx5e_dump_error_cqe
	{"kernel, mlx5e", `
mlx5_core 0000:3b:00.1 eth1: Error cqe on cqn 0x817, ci 0x8, qn 0x1dbb, opcode 0xd, syndrome 0x1, vendor syndrome 0x68
00000000: ` + rowOfZeros + `
00000010: ` + rowOfZeros + `
00000020: ` + rowOfZeros + `
00000030: 00 00 00 00 60 10 68 01 0a 00 1d bb 00 0f 9f d2`,
		paste.CQE, cqe.LocalLength, 0x68, 0x1dbb, 15, "the kernel (mlx5_core)"},
	// providers/mlx5/cq.c of rdma-core: handle_error_cqe, dump_cqe
	{"libmlx5", `
mlx5: cn10: got completion with error:
` + wordsOfZeros + `
` + wordsOfZeros + `
00000002 00000000 00000000 00000000
` + wordsOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "libmlx5"},
	// the next program writes into the same line: openucx/ucx issue 1569
	{"libmlx5, another writer in its line", `
mlx5: vegas06: got completion with error:
` + wordsOfZeros + `
` + wordsOfZeros + `
` + wordsOfZeros + `
` + wordsOfError + `[1496344648.549828] [vegas06:14872:0] parser.c:19 UCX WARN unused variable`,
		paste.CQE, remoteAccess, 0x88, 0x1234, 7, "libmlx5"},
	{"libmlx5 under mpirun with labels", `
[1,0]<stderr>:mlx5: node1: got completion with error:
[1,0]<stderr>:` + wordsOfZeros + `
[1,0]<stderr>:` + wordsOfZeros + `
[1,0]<stderr>:` + wordsOfZeros + `
[1,0]<stderr>:` + wordsOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "libmlx5"},
	// src/uct/ib/mlx5/ib_mlx5_log.c
	{"UCX", `
[b5244:224582:0:224582] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)
[b5244:224582:0:224582] ib_mlx5_log.c:139  DCI QP 0x7fba wqe[266]: SEND s-e [rqpn 0xfec4 rlid 485] [va 0x0 len 586 lkey 0x2911]`,
		paste.Text, cqe.TransportRetry, 0x81, 0x7fba, 266, "UCX"},
	{"UCX 1.5", `
[ast1815:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND`,
		paste.Text, cqe.TransportRetry, 0x81, 0xe6d7, 7821, "UCX"},
	// over verbs, what is printed as syndrome is the vendor byte: openucx/ucx issue 1569
	{"UCX over verbs", `
[1496344648.548260] [vegas06:14879:0] dc_verbs.c:614  UCX  ERROR Send completion with error on qp 0x6214: remote access error syndrome 0x88`,
		paste.Text, remoteAccess, 0x88, 0x6214, -1, "UCX"},
	// src/include/non_abi/device/pt-to-pt/ibgda_device.cuh: ibgda_poll_cq
	{"NVSHMEM", `
[3] got completion with err:
   syndrome=0x13, vendor_err_synd=0x88, hw_err_synd=0xb1, hw_synd_type=0,
   wqe_counter=0x7, s_wqe_opcode_qpn=0x8001234,
   cqn=0x41, cons_idx=0x6, prod_idx=0x9, idx=0x8`,
		paste.Text, remoteAccess, 0x88, 0x1234, 7, "NVSHMEM or DOCA GPUNetIO"},
	// doca_gpunetio_dev_verbs_cq.cuh: doca_gpu_dev_verbs_cq_print_cqe_err
	{"DOCA GPUNetIO", `
got completion with err: syndrome=0x13, vendor_err_synd=0x88, hw_err_synd=0xb1, hw_synd_type=0, wqe_counter=7`,
		paste.Text, remoteAccess, 0x88, 0, 7, "NVSHMEM or DOCA GPUNetIO"},
	// src/transport/net_ib.cc; NVIDIA/nccl issue 1405
	{"NCCL", `
kp-ddp-worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00:1148:9000:5000:4:200:3:ff22 remoteGidsfd00:1148:9000:5000:4:200:3:ff1f hca mlx5_0`,
		paste.Text, cqe.TransportRetry, 0x81, 0, -1, "NCCL"},
	{"NCCL before 2.12", `
node1:11:42 [0] transport/net_ib.cc:775 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 32, vendor err 129`,
		paste.Text, cqe.TransportRetry, 0x81, 0, -1, "NCCL"},
	// rte_hexdump; Juniper/warp17 issue 81
	{"DPDK", `
MLX5 Error CQE: at [0x7f6a7d20c000], len=64
00000000: 00 73 65 65 6E 00 00 00 00 00 00 00 00 00 00 00 | .seen...........
00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | ................
00000020: 00 00 00 13 00 00 00 00 00 00 00 00 00 00 00 00 | ................
00000030: 00 00 00 00 9D 00 53 04 0A 00 15 42 00 19 B0 D2 | ......S....B....`,
		paste.CQE, cqe.LocalProtection, 0x53, 0x1542, 25, "DPDK"},
	// drivers/net/mlx5/mlx5_tx.c: mlx5_tx_error_cqe_handle; shenango/caladan pull request 28
	{"DPDK, file of a queue", `
Unexpected CQE error syndrome 0x04 CQN = 128 SQN = 14688 wqe_counter = 1 wq_ci = 2 cq_ci = 0`,
		paste.Text, cqe.LocalProtection, -1, 14688, 1, "DPDK"},
	// src/core/dev/cq_mgr_tx.cpp: log_cqe_error
	{"libxlio", `
 XLIO WARNING: cqm_tx[0x55d0]:214:log_cqe_error() cqe: syndrome=0x4 vendor=0x52 hw=0x9d (type=0x0) wqe_opcode_qpn=0xa001234 wqe_counter=0x7`,
		paste.Text, cqe.LocalProtection, 0x52, 0x1234, 7, "libxlio"},
	// tests/utils.py: poll_cq
	{"tests of rdma-core", `
Traceback (most recent call last):
  File "rdma-core/tests/utils.py", line 577, in poll_cq
    raise PyverbsRDMAError('Completion status is {s}'.
pyverbs.pyverbs_error.PyverbsRDMAError: Completion status is local QP operation error. Errno: 2, No such file or directory`,
		paste.Text, cqe.LocalQPOp, -1, 0, -1, "the tests of rdma-core"},
	// libibverbs/examples/rc_pingpong.c
	{"ibv_rc_pingpong", `
Failed status local length error (1) for wr_id 1
parse WC failed 1
  local address:  LID 0x0000, QPN 0x7a8155, PSN 0xade6ec, GID fe80::7932:47a:3d80:92a0
  remote address: LID 0x0000, QPN 0xf1ead5, PSN 0x9d5cf4, GID fe80::7932:47a:3d80:92a0`, paste.Text, cqe.LocalLength, -1, 0, -1, "a program of rdma-core or perftest"},
	// src/perftest_resources.h: NOTIFY_COMP_ERROR_SEND; linux-rdma/perftest issue 173
	{"perftest", `
 Completion with error at client
 Failed status 4: wr_id 0 syndrom 0x51
scnt=828, ccnt=700`, paste.Text, cqe.LocalProtection, 0x51, 0, -1, "perftest"},
	// ofiwg/libfabric issue 4283
	{"libfabric", `
libfabric:ofi_rxm:cq:rxm_cq_read_write_error():819<warn> fi_cq_readerr: err: 5, prov_err: remote access error (10)`,
		paste.Text, remoteAccess, -1, 0, -1, "libfabric"},
	// ruihong123/dLSM issue 7: the RDMA-aware example of the vendor
	{"vendor's example", `
number 0 got bad completion with status: 0xc, vendor syndrome: 0x81`, paste.Text, cqe.TransportRetry, 0x81, 0, -1, ""},
	// mcxnex of Solaris prints the syndrome as the status: forums.developer.nvidia.com 207715
	{"Solaris", `
Mar 30 21:04:53 zfs genunix: WARNING: mcxnex0: CQE ERR: cqe ffffa100fbff5fa0 QPN 0x40064 indx 0x1d81 status 0x13 vendor syndrome 0x88`,
		paste.Text, remoteAccess, 0x88, 0x40064, -1, ""},
	{"nicless", `
nicless: explanation: pid 18625: nicless0: queue 0x69712c: receive 0 takes 1024 bytes, the message has 4096 (receive-short)`,
		paste.Text, 0, -1, 0x69712c, -1, "nicless"},

	{"xxd", `
00000000: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000010: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000020: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000030: 0000 0000 b100 8813 0800 1234 0007 3cd2  ...........4..<.`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"xxd -e: words of the host", `
00000000: 00000000 00000000 00000000 00000000  ................
00000010: 00000000 00000000 00000000 00000000  ................
00000020: 00000000 00000000 00000000 00000000  ................
00000030: 00000000 138800b1 34120008 d23c0700  ...........4..<.`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"hexdump -C, rows left out", `
00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
*
00000030  00 00 00 00 b1 00 88 13  08 00 12 34 00 07 3c d2  |...........4..<.|
00000040`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"hexdump: words of 2 bytes of the host", `
0000000 0000 0000 0000 0000 0000 0000 0000 0000
*
0000030 0000 0000 00b1 1388 0008 3412 0700 d23c
0000040`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -t x4: octal offsets, words of the host", `
0000000 00000000 00000000 00000000 00000000
0000020 00000000 00000000 00000000 00000000
0000040 00000000 00000000 00000000 00000000
0000060 00000000 138800b1 34120008 d23c0700
0000100`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"hexdump -x: gaps of four spaces", `
0000000    0000    0000    0000    0000    0000    0000    0000    0000
*
0000030    0000    0000    00b1    1388    0008    3412    0700    d23c
0000040`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -t x1: octal offsets, rows left out", `
0000000 ` + rowOfZeros + `
*
0000060 ` + rowOfError + `
0000100`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -t x1 without the last offset", `
0000000 ` + rowOfZeros + `
*
0000060 ` + rowOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"hexdump -e without the last offset", `
0000000 ` + rowOfZeros + `
*
0000030 ` + rowOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -A d -t x1: decimal offsets", `
0000000 ` + rowOfZeros + `
*
0000048 ` + rowOfError + `
0000064`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -A x -t x1: hexadecimal offsets of 6 digits", `
000000 ` + rowOfZeros + `
*
000030 ` + rowOfError + `
000040`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -x, rows left out", `
0000000 0000 0000 0000 0000 0000 0000 0000 0000
*
0000060 0000 0000 00b1 1388 0008 3412 0700 d23c
0000100`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"od -t x8, rows left out", `
0000000 0000000000000000 0000000000000000
*
0000060 138800b100000000 d23c070034120008
0000100`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"gdb x/16xw", `
(gdb) x/16xw cqe
0x7f6a7d20c000:	0x00000000	0x00000000	0x00000000	0x00000000
0x7f6a7d20c010:	0x00000000	0x00000000	0x00000000	0x00000000
0x7f6a7d20c020:	0x00000000	0x00000000	0x00000000	0x00000000
0x7f6a7d20c030:	0x00000000	0x138800b1	0x34120008	0xd23c0700`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"gdb x/8xg of a symbol", `
0x601040 <entry>:	0x0000000000000000	0x0000000000000000
0x601050 <entry+16>:	0x0000000000000000	0x0000000000000000
0x601060 <entry+32>:	0x0000000000000000	0x0000000000000000
0x601070 <entry+48>:	0x138800b100000000	0xd23c070034120008`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"gdb x/64xb", `
0x7fffe000:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe008:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe010:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe018:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe020:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe028:	0x00	0x00	0x00	0x00	0x00	0x00	0x00	0x00
0x7fffe030:	0x00	0x00	0x00	0x00	0xb1	0x00	0x88	0x13
0x7fffe038:	0x08	0x00	0x12	0x34	0x00	0x07	0x3c	0xd2`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"gdb print *cqe", `
$1 = {rsvd0 = '\000' <repeats 31 times>, srqn = 0, rsvd1 = '\000' <repeats 15 times>, hw_err_synd = 177 '\261', hw_synd_type = 0 '\000', vendor_err_synd = 136 '\210', syndrome = 19 '\023', s_wqe_opcode_qpn = 873594888, wqe_counter = 1792, signature = 60 '<', op_own = 210 '\322'}`,
		paste.Text, remoteAccess, 0x88, 0x1234, 7, ""},
	// mlx5_aso_poll_cq of the kernel prints digits without 0x
	{"kernel, ASO queue", `
mlx5_core 0000:08:00.0: mlx5_aso_poll_cq:411:(pid 12): Bad OP in ASOSQ CQE: 0xd
mlx5_core 0000:08:00.0: mlx5_aso_poll_cq:414:(pid 12): vendor_err_synd=88
mlx5_core 0000:08:00.0: mlx5_aso_poll_cq:416:(pid 12): syndrome=13
00000000: ` + rowOfZeros + `
00000010: ` + rowOfZeros + `
00000020: ` + rowOfZeros + `
00000030: ` + rowOfError, paste.CQE, remoteAccess, 0x88, 0x1234, 7, "the kernel (mlx5_core)"},
	// ib_wc_status_msg, drivers/nvme/host/rdma.c
	{"kernel, nvme", `
[  408.380230] nvme nvme15: RECV for CQE 0x00000000ce392ed9 failed with status local protection error (4)`,
		paste.Text, cqe.LocalProtection, -1, 0, -1, ""},
	// since 2.27: status=IBV_WC_…(12)
	{"NCCL, names of statuses", `
node1:11:42 [0] p2p_resiliency.cc:70 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4242> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 req_type=Send`,
		paste.Text, cqe.TransportRetry, 0x81, 0, -1, "NCCL"},
	{"lldb memory read", `
(lldb) memory read -c 64 cqe
0x16fdff0c0: ` + rowOfZeros + `  ................
0x16fdff0d0: ` + rowOfZeros + `  ................
0x16fdff0e0: ` + rowOfZeros + `  ................
0x16fdff0f0: ` + rowOfError + `  ...........4..<.`, paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"digits without spaces", strings.Repeat("00", 48) + "00000000b1008813080012340007 3cd2",
		paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"an array in C", "{" + strings.Repeat("0x00, ", 52) + "0xb1, 0x00, 0x88, 0x13, 0x08, 0x00, 0x12, 0x34, 0x00, 0x07, 0x3c, 0xd2}",
		paste.CQE, remoteAccess, 0x88, 0x1234, 7, ""},
	{"quoted in a mail, with colours", "> > \x1b[33m[  1.5] \x1b[0mmlx5_0:dump_cqe:263:(pid 0): dump error cqe\r\n" +
		"> > [  1.5] 00000000: " + rowOfZeros + "=0A=\r\n> > [  1.5] 00000010: " + rowOfZeros + "=0A=\r\n" +
		"> > [  1.5] 00000020: " + rowOfZeros + "=0A=\r\n> > [  1.5] 00000030: " + rowOfError + "=0A=\r\n",
		paste.CQE, remoteAccess, 0x88, 0x1234, 7, "the kernel (mlx5_ib)"},
}

// Each planted fault is found, and its most probable causes have codes.
func TestShapes(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			list, err := paste.All(strings.NewReader(s.text))
			require.NoError(t, err)
			require.Len(t, list, 1, "%+v", list)
			it := list[0]
			require.Equal(t, s.kind, it.Kind)
			assert.Equal(t, s.program, it.Facts.Program)
			if s.syndrome == 0 {
				require.Equal(t, "receive-short", it.Facts.Code)
				return
			}
			syndrome, vendor, ok := it.Error()
			require.True(t, ok)
			require.Equal(t, s.syndrome, syndrome)
			if s.vendor >= 0 {
				require.NotNil(t, vendor)
				require.Equal(t, uint8(s.vendor), *vendor)
			} else {
				require.Nil(t, vendor)
			}
			about, ok := known.AboutSyndrome(syndrome)
			require.True(t, ok)
			require.NotEmpty(t, about.Causes)
			if it.Kind == paste.Text {
				if s.qpn == 0 {
					assert.Nil(t, it.Facts.QPN)
				} else {
					require.NotNil(t, it.Facts.QPN)
					assert.Equal(t, s.qpn, *it.Facts.QPN)
				}
				if s.counter >= 0 {
					require.NotNil(t, it.Facts.Counter)
					assert.Equal(t, uint16(s.counter), *it.Facts.Counter)
				}
				return
			}
			w := cqe.ParseWC((*[cqe.Size]byte)(it.Bytes))
			assert.Equal(t, s.qpn, w.QPN)
			assert.Equal(t, uint16(s.counter), w.Counter)
		})
	}
}
