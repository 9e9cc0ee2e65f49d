//go:build linux && (amd64 || arm64)

package programs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// pings requires that so many echo requests are answered, all of them.
func (k talk) pings(count int) {
	k.from.t.Helper()
	k.pinged(k.pinging("0.002"), count)
}

// pinging begins to send echo requests, one in so many seconds. pinged ends it: with a count of its own, ping
// would wait for the last answers only for two round trips. In a user namespace the interval may be as short
// as for root.
func (k talk) pinging(every string) pings {
	k.from.t.Helper()
	proctest.Need(k.from.t, "ping")
	dropped := k.dropped()
	return pings{k.from.start("ping", "-n", "-i", every, k.address), dropped}
}

// pings is a process that sends echo requests, and how many packets both nodes had dropped before.
type pings struct {
	*process
	dropped int
}

// laterAnswers is how many later requests have to be answered before one without an answer counts as lost:
// packets are not overtaken by as many.
const laterAnswers = 100

// pinged waits until the first so many requests of pinging are answered. Some may be lost, as in every
// network, if the interfaces say that they have dropped as many packets meanwhile: they do that if a peer
// takes nothing for 100 ms, which happens when its process gets no core. Then later requests have to be
// answered.
func (k talk) pinged(p pings, count int) {
	k.from.t.Helper()
	var lost []int
	p.until(fmt.Sprintf("answers to the requests 1 to %d, or to %d later ones", count, laterAnswers), func(said string) bool {
		answered := make(map[int]bool)
		for _, at := range answers.FindAllStringSubmatch(said, -1) {
			n, _ := strconv.Atoi(at[1])
			answered[n] = true
		}
		lost = lost[:0]
		for i := range count {
			if !answered[i+1] {
				lost = append(lost, i+1)
			}
		}
		return len(lost) == 0 || len(answered) >= count-len(lost)+laterAnswers
	})
	p.signal(syscall.SIGINT)
	p.succeeds()
	if len(lost) == 0 {
		return
	}
	if dropped := k.dropped() - p.dropped; dropped < len(lost) {
		require.Fail(k.from.t, "packets vanished", "requests %v of %s to %s were not answered, and %d packets were dropped meanwhile.\n%s\n%s",
			lost, k.from.address(), k.address, dropped, k.from.counts(), k.to.counts())
	}
	k.from.t.Logf("requests %v of %s to %s were lost: the interfaces have dropped packets", lost, k.from.address(), k.address)
}

var answers = regexp.MustCompile(`icmp_seq=(\d+) ttl=.*\n`)

// dropped returns how many packets both nodes have dropped: their kernels, because an interface's process did
// not read them, and interfaces of their engines, because a peer did not take them.
func (k talk) dropped() (sum int) {
	k.from.t.Helper()
	said := k.from.reports()
	if k.to.socket != k.from.socket {
		said += k.to.reports()
	}
	for _, at := range forPeer.FindAllStringSubmatch(said, -1) {
		count, err := strconv.Atoi(at[1])
		require.NoError(k.from.t, err)
		sum += count
	}
	return sum + k.from.kernelDropped() + k.to.kernelDropped()
}

// kernelDropped returns how many packets the node's kernel has dropped.
func (n *node) kernelDropped() (sum int) {
	n.t.Helper()
	var list []struct {
		Name  string `json:"ifname"`
		Stats struct {
			RX, TX struct{ Dropped int }
		} `json:"stats64"`
	}
	said := n.run("ip", "-s", "-j", "link")
	require.NoError(n.t, json.Unmarshal([]byte(said), &list), said)
	for _, of := range list {
		sum += of.Stats.RX.Dropped + of.Stats.TX.Dropped
	}
	return sum
}

var forPeer = regexp.MustCompile(`(\d+) were dropped for one`)

// reports returns what the interfaces of the node's engine report. An engine inside an interface reports
// nothing.
func (n *node) reports() string {
	n.t.Helper()
	if n.socket == "" {
		return ""
	}
	return start(n.t, command, "links", "--engine", n.socket).succeeds()
}

// counts returns all counters that show where packets have gone.
func (n *node) counts() string {
	n.t.Helper()
	said := n.address() + ":\n" + n.run("ip", "-s", "-s", "link") + n.reports()
	for _, l := range slices.Concat(strings.Split(n.run("cat", "/proc/net/snmp6"), "\n"), strings.Split(n.run("cat", "/proc/net/snmp"), "\n")) {
		counted6 := strings.Contains(l, "p6") && !strings.HasSuffix(l, "\t0")
		if counted6 || strings.HasPrefix(l, "Icmp:") || strings.HasPrefix(l, "Ip:") {
			said += l + "\n"
		}
	}
	return said
}
