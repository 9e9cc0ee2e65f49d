package control

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// operations is the protocol: the message of each request and of its answer.
var operations = []struct {
	op              Op
	request, answer Message
}{
	{OpHello, &Hello{}, &Welcome{}},
	{OpAllocPD, &Empty{}, &PD{}},
	{OpDeallocPD, &PD{}, &Empty{}},
	{OpCreateRegion, &RegionSize{}, &RegionID{}},
	{OpDropRegion, &RegionID{}, &Empty{}},
	{OpRegMR, &MR{}, &Key{}},
	{OpDeregMR, &Key{}, &Empty{}},
	{OpCreateChannel, &Empty{}, &Channel{}},
	{OpDestroyChannel, &Channel{}, &Empty{}},
	{OpCreateCQ, &CQ{}, &CQN{}},
	{OpDestroyCQ, &CQN{}, &Empty{}},
	{OpCreateQP, &QP{}, &QPN{}},
	{OpModifyQP, &QPAttr{}, &Empty{}},
	{OpQueryQP, &QPN{}, &QPAttr{}},
	{OpDestroyQP, &QPN{}, &Empty{}},
	{OpCreateSRQ, &SRQ{}, &SRQN{}},
	{OpModifySRQ, &SRQLimit{}, &Empty{}},
	{OpQuerySRQ, &SRQN{}, &SRQLimit{}},
	{OpDestroySRQ, &SRQN{}, &Empty{}},
	{OpResizeCQ, &ResizeCQ{}, &Empty{}},
	{OpAllocMW, &MW{}, &Key{}},
	{OpCreateMkey, &Mkey{}, &Key{}},
	{OpReregMR, &ReregMR{}, &Key{}},
	{OpOpenEvents, &Empty{}, &Empty{}},
	{OpWake, &Wake{}, &Empty{}},
	{OpPlaceRegion, &Placement{}, &Empty{}},
	{OpOpenXRCD, &Empty{}, &XRCD{}},
	{OpCloseXRCD, &XRCD{}, &Empty{}},
	{OpCreateXSRQ, &XSRQ{}, &SRQN{}},
	{OpCreateTarget, &XRCD{}, &QPN{}},
	{OpOpenTarget, &Target{}, &Empty{}},
	{OpCreateDCT, &DCT{}, &QPN{}},
	{OpAddress, &Empty{}, &Address{}},
	{OpSetPeer, &Peer{}, &Empty{}},
	{OpAnnounce, &Announce{}, &Empty{}},
	{OpNextAnnouncement, &AnnouncementPlace{}, &Announcement{}},
	{OpAnnounceTo, &AnnounceTo{}, &Empty{}},
	{OpWatch, &Watch{}, &Rings{}},
	{OpSetFaults, &Faults{}, &Empty{}},
	{OpQueryFault, &FaultRule{}, &FaultCount{}},
	{OpQueryPort, &Empty{}, &Port{}},
	{OpOpenBox, &Empty{}, &Box{}},
	{OpSendMessage, &BoxMessage{}, &Empty{}},
	{OpNextMessage, &Empty{}, &BoxMessage{}},
	{OpNextChange, &ChangesSince{}, &Change{}},
}

// messages returns one zero message of each type.
func messages() map[string]Message {
	all := map[string]Message{"Error": &Error{}, "Event": &Event{}}
	for _, o := range operations {
		for _, m := range []Message{o.request, o.answer} {
			all[kind(m)] = blank(m)
		}
	}
	return all
}

// kind is the name of a message's type.
func kind(m Message) string { return reflect.TypeOf(m).Elem().Name() }

// blank returns a zero message of m's type.
func blank(m Message) Message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message) }

func TestOperationsAreNumberedFromOneAndNamed(t *testing.T) {
	seen := make(map[string]bool)
	for i, o := range operations {
		assert.Equal(t, Op(i+1), o.op, "numbers are never used again, nor left out")
		assert.Regexp(t, `^[a-z]+(_[a-z]+)?$`, o.op.String())
		assert.False(t, seen[o.op.String()], "%v twice", o.op)
		seen[o.op.String()] = true
	}
	assert.Len(t, opNames, len(operations))
	assert.Equal(t, "operation 0", Op(0).String())
	assert.Equal(t, "operation 46", Op(len(operations)+1).String())
}
