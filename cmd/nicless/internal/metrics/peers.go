//go:build linux && (amd64 || arm64)

package metrics

import (
	"strings"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/prometheus/client_golang/prometheus"
)

// mostPeers bounds the series of peers of links.
const mostPeers = 256

var peerCounts = []count[fabric.Peer]{
	{"nicless_link_packets_sent_total", "Packets sent to a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.Sent }},
	{"nicless_link_packets_received_total", "Packets received from a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.Received }},
	{"nicless_link_sent_bytes_total", "Bytes of payload sent to a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.Bytes }},
	{"nicless_link_received_bytes_total", "Bytes of payload received from a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.GotBytes }},
	{"nicless_link_packets_resent_total", "Packets sent again to a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.Resent }},
	{"nicless_link_timeouts_total", "Times that no answer of a peer came in time.",
		func(p *fabric.Peer) uint64 { return p.Stats.Timeouts }},
	{"nicless_link_gaps_total", "Times that packets of a peer were missing.",
		func(p *fabric.Peer) uint64 { return p.Stats.Gaps }},
	{"nicless_link_duplicates_total", "Packets of a peer that came a second time.",
		func(p *fabric.Peer) uint64 { return p.Stats.Duplicates }},
	{"nicless_link_naks_sent_total", "NAKs sent to a peer, except those for gaps.",
		func(p *fabric.Peer) uint64 { return p.Stats.Refused }},
	{"nicless_link_rnr_naks_sent_total", "RNR NAKs sent to a peer: no receive was posted for its message.",
		func(p *fabric.Peer) uint64 { return p.Stats.NotReady }},
	{"nicless_link_congestion_notifications_total", "Congestion notifications received from a peer.",
		func(p *fabric.Peer) uint64 { return p.Stats.Marks }},
	{"nicless_link_faults_total", "Times that a link was given up and made anew, because its peer had written garbage.",
		func(p *fabric.Peer) uint64 { return p.Faults }},
	{"nicless_link_wrong_sums_total", "Looks at packets of a peer whose check sum was wrong.",
		func(p *fabric.Peer) uint64 { return p.WrongSums }},
}

// A drop is a reason for which packets of a peer are dropped.
type drop struct {
	reason string
	of     func(*fabric.Peer) uint64
}

// drops are the reasons that peers' ports count: nicless links says them in words.
var drops = []drop{
	{"unknown_qp", func(p *fabric.Peer) uint64 { return p.Stats.UnknownQPs }},
	{"stranger", func(p *fabric.Peer) uint64 { return p.Stats.Strangers }},
	{"malformed", func(p *fabric.Peer) uint64 { return p.Stats.Malformed }},
	{"wrong_key", func(p *fabric.Peer) uint64 { return p.Stats.WrongKeys }},
	{"out_of_window", func(p *fabric.Peer) uint64 { return p.Stats.OutOfWindow }},
	{"stray_answer", func(p *fabric.Peer) uint64 { return p.Stats.StrayAnswers }},
	{"limited_path", func(p *fabric.Peer) uint64 { return p.Stats.ShutOut }},
	{"doubted", func(p *fabric.Peer) uint64 { return p.Stats.Doubted }},
	{"management", func(p *fabric.Peer) uint64 { return p.Stats.ManagementMissed }},
}

// A dropped is the count of one of drops.
type dropped uint64

var peerGauges = []count[fabric.Peer]{
	{"nicless_link_peers", "Peers in this series: 1, or more in the series of the others.",
		func(*fabric.Peer) uint64 { return 1 }},
	{"nicless_link_up", "Of these, peers with which packets can be exchanged.",
		func(p *fabric.Peer) uint64 { return uint64(one(p.Up)) }},
	{"nicless_link_queues", "Queue pairs that use the link to a peer now.",
		func(p *fabric.Peer) uint64 { return uint64(p.Stats.QueuePairs) }},
}

// peers are the series of peers of links.
type peers struct {
	*ledger[peerID]
	counts, gauges []family[series]
	dropped        []family[dropped]
}

// A peerID is a peer of a link. nth distinguishes peers of the same name.
type peerID struct {
	link, peer string
	nth        int
}

func newPeers() *peers {
	names := []string{"link", "peer"}
	p := &peers{
		counts: countFamilies(peerCounts, names...),
		gauges: gaugeFamilies(peerGauges, names...),
		dropped: describe([]family[dropped]{{name: "nicless_link_packets_dropped_total",
			help:  "Packets of a peer that were dropped, by the reason.",
			value: func(n *dropped) float64 { return float64(*n) }}}, append(names, "reason")...),
	}
	p.reset()
	return p
}

// reset begins anew, without series: the next answer is of another engine.
func (p *peers) reset() {
	p.ledger = newLedger[peerID](mostPeers, mostPeers, len(peerCounts)+len(drops), len(peerGauges),
		labels{other, other})
}

// look takes an answer of the engine. Nodes that have never joined a pool are no peers: most pools have room
// for more nodes than there are.
func (p *peers) look(list []links.Report) {
	var now []entry[peerID]
	seen := make(map[peerID]int)
	for _, l := range list {
		for i := range l.Peers {
			q := &l.Peers[i]
			if !q.Up && strings.HasSuffix(q.Why, " has not joined the pool") {
				continue
			}
			id := peerID{link: l.Link, peer: q.Name}
			seen[id]++
			at := labels{label(id.link), label(id.peer)}
			id.nth = seen[id]
			counts := values(peerCounts, q)
			for _, d := range drops {
				counts = append(counts, d.of(q))
			}
			gauges := floats(values(peerGauges, q))
			now = append(now, entry[peerID]{id: id, labels: at, counts: counts, gauges: gauges})
		}
	}
	p.update(now)
}

func (p *peers) collect(out chan<- prometheus.Metric) {
	for _, s := range p.all() {
		at := s.labels[:2:2]
		send(out, p.counts, s, at, nil)
		send(out, p.gauges, s, at, nil)
		for i, d := range drops {
			n := dropped(s.counts[len(peerCounts)+i])
			send(out, p.dropped, &n, append(at, d.reason), nil)
		}
	}
}
