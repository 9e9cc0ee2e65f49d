//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"os"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/cm"
	"golang.org/x/sys/unix"
)

// write serves NV_WRITE: a program writes a command to a channel of rdma_cm.
func (p *process) write(h wireHeader, b []byte, files []nic.File) ([]byte, []*os.File, error) {
	written, results, err := parseWrite(b)
	if err != nil {
		return nil, nil, err
	}
	if f := p.mads[h.context]; f != nil {
		return f.write(h, le.Uint64(b), written)
	}
	ch := p.managers[h.context]
	if ch == nil {
		return nil, nil, refuse(eBADF, "rdma_cm: channel %d: this process has not opened it", h.context)
	}
	c := &cm.Call{Program: p.cmProgram(), Channel: ch.channel, Written: written}
	for _, r := range results {
		result := cm.Result{Kind: cmKinds[r.kind], Errno: unix.Errno(r.errno), Bytes: r.bytes}
		if r.kind == needFD && r.errno == 0 {
			if len(files) == 0 {
				return nil, nil, errWire
			}
			if from := p.s.cmChannelOf(files[0]); from != nil {
				result.Channel = from.channel
			}
			files = files[1:]
		}
		c.Results = append(c.Results, result)
	}
	err = p.s.manager.Serve(c)
	p.traceCM(c, err)
	switch {
	case errors.Is(err, cm.ErrAgain):
		out := le.AppendUint64(appendAnswer(nil, h, flagAgain, 0), uint64(len(c.Needs)))
		for _, n := range c.Needs {
			out = (&wireNeed{kind: cmNeeds[n.Kind], addr: n.Addr, length: n.Length}).append(out)
			out = append(out, n.Bytes...) // for NeedRoute; the length is a multiple of 8
		}
		return out, nil, nil
	case err != nil:
		return nil, nil, err
	}
	out := le.AppendUint64(appendAnswer(nil, h, 0, 0), uint64(len(c.Stores)))
	for _, s := range c.Stores {
		out = (&wireOut{kind: outBytes, value: s.Addr, bytes: s.Bytes}).append(out)
	}
	return out, nil, nil
}

// cmNeeds has the number of each need in the protocol, and cmKinds is the reverse.
var (
	cmNeeds = map[cm.NeedKind]uint16{cm.NeedToken: needToken, cm.NeedRoute: needRoute,
		cm.NeedBytes: needBytes, cm.NeedChannel: needFD, cm.NeedAddresses: needAddresses}
	cmKinds = map[uint16]cm.NeedKind{needToken: cm.NeedToken, needRoute: cm.NeedRoute,
		needBytes: cm.NeedBytes, needFD: cm.NeedChannel, needAddresses: cm.NeedAddresses}
)

// A wireGot is an nv_got and its bytes.
type wireGot struct {
	kind  uint16
	errno int32
	bytes []byte
}

// parseWrite parses the body of a request NV_WRITE.
func parseWrite(b []byte) (written []byte, results []wireGot, err error) {
	if len(b) < writeSize {
		return nil, nil, errWire
	}
	n, count := le.Uint32(b[8:]), le.Uint32(b[12:])
	b = b[writeSize:]
	if n > cm.MaxWrite || padded(int(n)) > len(b) {
		return nil, nil, errWire
	}
	written, b = b[:n:n], b[padded(int(n)):]
	for ; count > 0; count-- {
		if len(b) < gotSize {
			return nil, nil, errWire
		}
		g := wireGot{kind: le.Uint16(b), errno: int32(le.Uint32(b[4:]))}
		length := le.Uint32(b[8:])
		b = b[gotSize:]
		if uint64(length) > uint64(len(b)) || padded(int(length)) > len(b) || g.errno < 0 {
			return nil, nil, errWire
		}
		g.bytes, b = b[:length:length], b[padded(int(length)):]
		results = append(results, g)
	}
	if len(b) != 0 {
		return nil, nil, errWire
	}
	return written, results, nil
}
