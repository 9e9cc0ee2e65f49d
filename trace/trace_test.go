package trace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sample = []Event{
	{Kind: KindClient, Number: 0, Time: 100, Queue: 1, Value: 4711, Data: []byte("put")},
	{Kind: KindDoorbell, Number: 1, Time: 200, Queue: 0x51, Index: 65535, Count: 2, Value: 0x10001},
	{Kind: KindFetch, Number: 2, Time: 200, Queue: 0x51, Index: 65535, Count: 2, Data: bytes.Repeat([]byte{0xab}, 128)},
}

// These bytes are the format: a change of them needs another Version.
func TestGoldenRecord(t *testing.T) {
	b, err := Append(nil, &sample[0])
	require.NoError(t, err)
	require.Equal(t, "2800010500000000"+"6400000000000000"+"0100000000000000"+"6712000000000000"+"7075740000000000",
		hex.EncodeToString(b))
	b, err = Append(nil, &sample[1])
	require.NoError(t, err)
	require.Equal(t, "2000060001000000"+"c800000000000000"+"51000000ffff0200"+"0100010000000000", hex.EncodeToString(b))
}

func TestGoldenQueueInfo(t *testing.T) {
	q := QueueInfo{SendCQ: 1, RecvCQ: 2, Peer: 3, SRQ: 4, SendPSN: 5, RecvPSN: 6, SendBlocks: 7, RecvEntries: 8,
		Port: 9, MTU: 10, GID: [16]byte{11}, PeerGID: [16]byte{15: 12}}
	b := q.Append(nil)
	require.Equal(t, "01000000020000000300000004000000050000000600000007000000080000000900000"+
		"00a0000000b0000000000000000000000000000000000000000000000000000000000000c", hex.EncodeToString(b))
	back, err := ParseQueueInfo(b)
	require.NoError(t, err)
	require.Equal(t, q, back)
	_, err = ParseQueueInfo(b[:71])
	require.ErrorContains(t, err, "71 bytes of a queue pair; it has 72")
}

func write(t *testing.T) []byte {
	var b bytes.Buffer
	w, err := NewWriter(&b, Clock{Hz: 2e9, Ticks: 100, Unix: 1e18, GUID: 7})
	require.NoError(t, err)
	for i := range sample {
		require.NoError(t, w.Write(&sample[i]))
	}
	require.NoError(t, w.Close(300, true))
	return b.Bytes()
}

func read(b []byte) (all []Event, err error) {
	r, err := NewReader(bytes.NewReader(b))
	for err == nil {
		var e Event
		if err = r.Next(&e); err == nil {
			e.Data = bytes.Clone(e.Data)
			all = append(all, e)
		}
	}
	return all, err
}

func TestFile(t *testing.T) {
	b := write(t)
	all, err := read(b)
	require.Equal(t, io.EOF, err)
	require.Len(t, all, 4)
	for i, e := range sample {
		require.Equal(t, e.Kind, all[i].Kind)
		require.Equal(t, e.Value, all[i].Value)
		require.Equal(t, string(e.Data), string(all[i].Data))
	}
	require.Equal(t, Event{Kind: KindEnd, Time: 300, Index: 1, Value: 3, Data: nil}, withoutEmpty(all[3]))
	r, err := NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	require.Equal(t, 50*time.Nanosecond, r.Clock().Since(200))
	require.Equal(t, -50*time.Nanosecond, r.Clock().Since(0))
	require.Equal(t, int64(1e18+50), r.Clock().Time(200).UnixNano())
}

func withoutEmpty(e Event) Event {
	if len(e.Data) == 0 {
		e.Data = nil
	}
	return e
}

// A trace that ends anywhere before its end says so, after all events that are whole.
func TestCutShort(t *testing.T) {
	b := write(t)
	for n := FileHeadSize; n < len(b); n++ {
		_, err := read(b[:n])
		require.ErrorIs(t, err, ErrCut, "%d bytes", n)
	}
	for n := range FileHeadSize {
		_, err := read(b[:n])
		require.ErrorContains(t, err, "trace: ", "%d bytes", n)
	}
}

func TestDamaged(t *testing.T) {
	for _, c := range []struct {
		at   int
		to   byte
		want string
	}{
		{0, 'N', `it begins with "Nicltrac", and a trace with "nicltrac"`},
		{8, 2, "version 2; this program reads version 1"},
		{FileHeadSize, 0x24, "record at byte 64: size 36; it is a multiple of 8 from 32 on"},
		{FileHeadSize, 0x18, "record at byte 64: size 24; it is a multiple of 8 from 32 on"},
		{FileHeadSize + 3, 8, "record at byte 64: padding 8 of a record of 40 bytes; at most 7 is possible"},
		{FileHeadSize + 2, byte(KindEnd), "record at byte 64: the end counts 4711 events, and there are 0"},
	} {
		b := write(t)
		b[c.at] = c.to
		_, err := read(b)
		require.ErrorContains(t, err, c.want)
	}
	b := write(t)
	_, err := read(append(b, b[FileHeadSize:]...))
	require.ErrorContains(t, err, "a record after the end of the trace")
}

// A disk that is full is an error of the writer, and the trace is readable up to there.
func TestFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	var b bytes.Buffer
	w, err := NewWriter(writerFunc(func(p []byte) (int, error) {
		if b.Len() > 1<<20 {
			return 0, full
		}
		return b.Write(p)
	}), Clock{Hz: 1})
	require.NoError(t, err)
	for err == nil {
		err = w.Write(&sample[2])
	}
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, w.Close(0, false), full)
	all, err := read(b.Bytes())
	require.ErrorIs(t, err, ErrCut)
	require.NotEmpty(t, all)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w, _ := NewWriter(&b, Clock{Hz: 1})
	_ = w.Write(&sample[2])
	_ = w.Close(1, false)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := read(b)
		require.Error(t, err)
		for _, e := range all {
			require.LessOrEqual(t, len(e.Data), MaxData)
		}
	})
}
