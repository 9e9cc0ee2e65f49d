package trace

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// These bytes are the format of minor versions 1 to 3.
func TestGoldenSetups(t *testing.T) {
	q := QueueSetup{PD: 1, Access: 2, QKey: 3, UserIndex: 4, MaxRdAtomic: 5, MaxDestRdAtomic: 6, MinRNRTimer: 7,
		RNRRetry: 8, RetryCount: 9, Timeout: 10, LogStride: 11, Flags: Signed | NoSends, Scatter: 3, LogStreams: 12,
		Doorbells: Guarded, XRCD: 13, DCKey: 14}
	info := QueueInfo{SendCQ: 9}
	b := q.Append(info.Append(nil))
	require.Equal(t, "01000000020000000300000004000000"+"05060708090a0b0a030c0200"+"0d000000"+"0e00000000000000",
		hex.EncodeToString(b[QueueInfoSize:]))
	back, ok := ParseQueueSetup(b)
	require.True(t, ok)
	require.Equal(t, q, back)
	_, ok = ParseQueueSetup(b[:QueueInfoSize])
	require.False(t, ok, "a trace without it")

	k := KeySetup{From: 1, PD: 2, Entries: 3, Window: 4}
	b = k.Append(KeyInfo{}.Append(nil))
	require.Equal(t, "0100000000000000"+"020000000300000004000000", hex.EncodeToString(b[KeyInfoSize:]))
	key, ok := ParseKeySetup(b)
	require.True(t, ok)
	require.Equal(t, k, key)
	_, ok = ParseKeySetup(b[:KeyInfoSize])
	require.False(t, ok)
	_, ok = ParseKeyList(b)
	require.False(t, ok, "no list, or of minor version 2")
	l := KeyList{Invalidate: true, Pieces: []KeyPiece{{Addr: 5, N: 6, Key: 7}, {Addr: 8, N: 9, Key: 10}}}
	b = l.Append(b)
	require.Equal(t, "0200000001000000"+"05000000000000000600000000000000"+"07000000"+"08000000000000000900000000000000"+"0a000000",
		hex.EncodeToString(b[KeyInfoSize+KeySetupSize:]))
	list, ok := ParseKeyList(b)
	require.True(t, ok)
	require.Equal(t, l, list)
	_, ok = ParseKeyList(b[:len(b)-1])
	require.False(t, ok, "a piece that is cut short")
	list, ok = ParseKeyList(KeyList{}.Append(b[:KeyInfoSize+KeySetupSize]))
	require.True(t, ok)
	require.Equal(t, KeyList{}, list)

	c := CQSetup{LogSize: 8, LogEntry: 6, Flags: 4}
	require.Equal(t, "0806000004000000", hex.EncodeToString(c.Append(nil)))
	cq, err := ParseCQSetup(c.Append(nil))
	require.NoError(t, err)
	require.Equal(t, c, cq)
	_, err = ParseCQSetup(nil)
	require.ErrorContains(t, err, "0 bytes of a completion queue; it has 8")

	s := SRQSetup{PD: 1, XRCD: 2, CQ: 3, UserIndex: 4, LogSize: 5, LogStride: 6, Cyclic: true}
	require.Equal(t, "0100000002000000030000000400000005060100", hex.EncodeToString(s.Append(nil)))
	srq, err := ParseSRQSetup(s.Append(nil))
	require.NoError(t, err)
	require.Equal(t, s, srq)
	old := s.Append(nil)
	old[18] = 0 // of minor versions 1 and 2
	srq, err = ParseSRQSetup(old)
	require.NoError(t, err)
	require.False(t, srq.Cyclic)
	_, err = ParseSRQSetup([]byte{1})
	require.ErrorContains(t, err, "1 bytes of a shared receive queue; it has 20")

	e := Event{Kind: KindPayload, Queue: 0x51, Index: 2, Value: PayloadValue(16384, []byte("123456789")), Data: []byte("123456789")}
	r, err := Append(nil, &e)
	require.NoError(t, err)
	require.Equal(t, "3000170700000000"+"0000000000000000"+"5100000002000000"+"00400000839206e3"+"31323334353637383900000000000000",
		hex.EncodeToString(r), "0xe3069283 is the check value of CRC-32C")

	e = Event{Kind: KindPlan, Index: 1, Value: 300, Data: []byte("{}")}
	r, err = Append(nil, &e)
	require.NoError(t, err)
	require.Equal(t, "2800180600000000"+"0000000000000000"+"0000000001000000"+"2c01000000000000"+"7b7d000000000000",
		hex.EncodeToString(r), "of minor version 2")
}
