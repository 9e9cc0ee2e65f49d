package accel

import "github.com/nicless/nicless/hostpath"

// This file has RDMaxcel's functions under their names. A kernel, a launch from the
// host and the host itself call the same function with the same parameters, and write
// the same bytes.

// WQEParams are the parameters of SendWQE and RecvWQE (wqe_params_t): LAddr,
// LKey, Length, WRID (the count of the WQE), Signaled, OpType, RAddr, RKey,
// QPNum, Buf (the ring), DBRec (the doorbell record), WQECnt (entries of the
// ring). QP.Raw fills in the last four.
type WQEParams = hostpath.WQEParams

// CQEPollParams are the parameters of PollCQE (cqe_poll_params_t): CQEBuf,
// CQESize, ConsumerIndex, CQECnt, DBRec.
type CQEPollParams = hostpath.CQEPollParams

// Results of PollCQE that are not byte counts.
const (
	CQENone   = hostpath.CQENone   // there is no completion yet
	CQEFailed = hostpath.CQEFailed // the completion reports an error
)

// SendWQE writes a send WQE and publishes its count (send_wqe).
func SendWQE(p WQEParams) error { return hostpath.SendWQE(p) }

// AtomicWQE is SendWQE for fetch-and-add (of swapAdd) and compare-and-swap of 8 bytes.
func AtomicWQE(p WQEParams, swapAdd, compare uint64) error {
	return hostpath.AtomicWQE(p, swapAdd, compare)
}

// RecvWQE writes a receive and publishes its count (recv_wqe).
func RecvWQE(p WQEParams) error { return hostpath.RecvWQE(p) }

// RingDB copies the 64 bytes of a WQE into a doorbell register (db_ring).
func RingDB(dst, src []byte) { hostpath.RingDB(dst, src) }

// PollCQE checks one entry of a CQ, and takes the entry if it contains a completion
// (cqe_poll). It returns the byte count, CQENone or CQEFailed.
func PollCQE(p CQEPollParams) (bytes int32, err error) { return hostpath.PollCQE(p) }

// SendWQE calls the function SendWQE in a kernel. Invalid parameters end the kernel.
func (t *Thread) SendWQE(p WQEParams) {
	t.drainPuts()
	t.must("SendWQE", hostpath.SendWQE(p))
}

// RecvWQE calls the function RecvWQE in a kernel. Invalid parameters end the kernel.
func (t *Thread) RecvWQE(p WQEParams) {
	t.drainPuts()
	t.must("RecvWQE", hostpath.RecvWQE(p))
}

// RingDB calls the function RingDB in a kernel.
func (t *Thread) RingDB(dst, src []byte) {
	t.drainPuts()
	hostpath.RingDB(dst, src)
}

// PollCQE calls the function PollCQE in a kernel. Invalid parameters end the kernel.
func (t *Thread) PollCQE(p CQEPollParams) int32 {
	n, err := hostpath.PollCQE(p)
	t.must("PollCQE", err)
	return n
}

func (t *Thread) must(what string, err error) {
	if err != nil {
		panic(&refused{what, err})
	}
}

// LaunchSendWQE launches a kernel of one lane that calls SendWQE (launch_send_wqe).
func (s *Stream) LaunchSendWQE(p WQEParams) error {
	return s.single(func(t *Thread) { t.SendWQE(p) })
}

// LaunchRecvWQE launches a kernel of one lane that calls RecvWQE (launch_recv_wqe).
func (s *Stream) LaunchRecvWQE(p WQEParams) error {
	return s.single(func(t *Thread) { t.RecvWQE(p) })
}

// LaunchRingDB launches a kernel of one lane that calls RingDB (launch_db_ring).
func (s *Stream) LaunchRingDB(dst, src []byte) error {
	return s.single(func(t *Thread) { t.RingDB(dst, src) })
}

// LaunchPollCQE launches a kernel of one lane that calls PollCQE, and waits for its end
// (launch_cqe_poll).
func (s *Stream) LaunchPollCQE(p CQEPollParams) (bytes int32, err error) {
	if err := s.single(func(t *Thread) { bytes = t.PollCQE(p) }); err != nil {
		return 0, err
	}
	return bytes, s.Sync()
}

func (s *Stream) single(k Kernel) error { return s.Launch(Grid{Blocks: 1, Threads: 1}, k) }
