package hostpath

import (
	"encoding/hex"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/stretchr/testify/require"
)

func recvWR(list []recordedSGE) *RecvWR {
	wr := &RecvWR{ID: 1}
	for _, s := range list {
		wr.SGE = append(wr.SGE, SGE{Addr: uint64(s.Addr), Length: s.Length, LKey: s.LKey})
	}
	return wr
}

func TestGoldenRQ(t *testing.T) {
	vectors.Recorded(t, "libmlx5-rq", func(t *testing.T, r vectors.Recording) {
		var in struct {
			Asked  int           `json:"max_recv_sge_asked"`
			Size   int           `json:"rq_wqe_cnt"`
			Stride int           `json:"rq_stride"`
			Index  uint64        `json:"rq_index"`
			SGE    []recordedSGE `json:"sge"`
		}
		var want struct {
			Bytes  vectors.Hex `json:"bytes"`
			Record vectors.Hex `json:"dbrec_rq"`
		}
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		m := newMemory(t, in.Size*in.Stride+4096)
		ring, record := m.take(in.Size*in.Stride), m.take(8)
		q, err := NewRQ(RQConfig{Ring: ring, Stride: in.Stride, Record: record})
		require.NoError(t, err)
		require.GreaterOrEqual(t, q.MaxSGE(), in.Asked)
		q.next, q.seen = in.Index, in.Index
		q.freed.Publish(in.Index)

		n, err := q.PostRecvList([]RecvWR{*recvWR(in.SGE)})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		image := make([]byte, len(ring))
		copy(image[int(in.Index)%in.Size*in.Stride:], want.Bytes)
		require.Equal(t, hex.Dump(image), hex.Dump(ring))
		require.Equal(t, []byte(want.Record), record[:4])
		require.Equal(t, make([]byte, 4), record[4:], "the send word is not ours")
	})
}

func TestGoldenSRQ(t *testing.T) {
	type created struct {
		Stride int           `json:"stride"`
		Head   uint16        `json:"head"`
		Tail   uint16        `json:"tail"`
		Links  []vectors.Hex `json:"next_segs"`
		Bytes  vectors.Hex   `json:"bytes"`
		Record vectors.Hex   `json:"dbrec"`
	}
	vectors.Recorded(t, "libmlx5-srq", func(t *testing.T, r vectors.Recording) {
		var in struct {
			AskedSGE int           `json:"max_sge_asked"`
			AskedWR  int           `json:"max_wr_asked"`
			GotWR    int           `json:"max_wr_got"`
			GotSGE   int           `json:"max_sge_got"`
			Stride   int           `json:"stride"`
			Index    int           `json:"index"`
			SGE      []recordedSGE `json:"sge"`
		}
		var want created
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		size, stride := 64, in.Stride
		if want.Links != nil {
			size, stride = len(want.Links), want.Stride
		}
		for size <= in.Index+1 {
			size *= 2
		}
		m := newMemory(t, size*stride+4096)
		ring, record := m.take(size*stride), m.take(4)
		q, err := NewSRQ(SRQConfig{Ring: ring, Stride: stride, Record: record})
		require.NoError(t, err)
		require.GreaterOrEqual(t, q.MaxSGE(), in.AskedSGE)

		if want.Links != nil {
			require.Equal(t, in.GotSGE, q.MaxSGE())
			require.Equal(t, in.GotWR, size-1)
			require.Equal(t, want.Head, q.head)
			require.Equal(t, want.Tail, q.tail)
			for i, link := range want.Links {
				require.Equal(t, []byte(link), ring[i*stride:][:16], "entry %d", i)
			}
			require.Equal(t, []byte(want.Record), record)
			return
		}
		for range in.Index {
			require.NoError(t, q.PostRecv(&RecvWR{SGE: sge(9)}))
		}
		before := append([]byte(nil), ring...)
		require.NoError(t, q.PostRecv(recvWR(in.SGE)))
		q.Ring()
		copy(before[in.Index*stride:], want.Bytes)
		require.Equal(t, hex.Dump(before), hex.Dump(ring))
		require.Equal(t, []byte(want.Record), record)
	})
}
