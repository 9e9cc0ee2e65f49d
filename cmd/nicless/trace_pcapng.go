package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/roce"
)

// A pcapngWriter writes the packets of a trace. Work that the device has done in memory is on one interface,
// and the packets of links are on another.
type pcapngWriter struct {
	maker roce.Maker
	w     *pcapgo.NgWriter
	clock trace.Clock
}

const (
	memoryInterface = iota
	linkInterface
)

func openPcapng(w io.Writer, c trace.Clock, f *traceFlags) (eventWriter, error) {
	info, _ := debug.ReadBuildInfo()
	memory := pcapgo.NgInterface{Name: "memory", LinkType: layers.LinkTypeRaw, TimestampResolution: 9,
		Description: "work done in memory, as the packets that it would have been"}
	section := pcapgo.NgSectionInfo{Hardware: fmt.Sprintf("nicless device, GUID %016x", c.GUID),
		Application: "nicless " + buildVersion(info)}
	ng, err := pcapgo.NewNgWriterInterface(w, memory, pcapgo.NgWriterOptions{SectionInfo: section})
	if err != nil {
		return nil, err
	}
	link := pcapgo.NgInterface{Name: "link", LinkType: layers.LinkTypeRaw, TimestampResolution: 9,
		Description: "packets of links"}
	if _, err = ng.AddInterface(link); err != nil {
		return nil, err
	}
	x := &pcapngWriter{w: ng, clock: c}
	x.maker.Emit, x.maker.Fill = x.packet, !f.cut
	return x, nil
}

func (x *pcapngWriter) Event(e *trace.Event, c trace.Clock) error { return x.maker.Event(e, c) }

// mostComment is the longest comment in bytes: a line of text. Its option has 16 bits for the length.
const mostComment = 4096

func (x *pcapngWriter) packet(p *roce.Packet) error {
	ci := gopacket.CaptureInfo{Timestamp: x.clock.Time(p.Time), CaptureLength: len(p.Data), Length: p.Length,
		InterfaceIndex: memoryInterface}
	if p.Link {
		ci.InterfaceIndex = linkInterface
	}
	comment := strings.ToValidUTF8(p.Comment[:min(len(p.Comment), mostComment)], "")
	return x.w.WritePacketWithOptions(ci, p.Data, pcapgo.NgPacketOptions{Comments: []string{comment}})
}

func (x *pcapngWriter) flush() error { return x.w.Flush() }
func (x *pcapngWriter) Close() error { return x.flush() }
