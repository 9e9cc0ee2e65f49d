package costs

import "github.com/nicless/nicless/model"
import "fmt"

// A MESI is the state of a line in a cache.
type MESI uint8

// The states. E and M are exclusive: no other cache has the line. M is newer than memory.
const (
	I MESI = iota
	S
	E
	M
)

func (m MESI) String() string { return "ISEM"[m : m+1] }

// A Home is the memory that a line belongs to.
type Home uint8

// The homes.
const (
	HostMemory Home = iota
	DeviceMemory
	PoolMemory
	homes // number of homes
)

var homeNames = []string{"host", "dev", "pool"}

func (h Home) String() string { return homeNames[h] }

// A Bias says which side may access a line of device memory without asking the other (CXL type 2).
// Lines of other memory have HostBias.
type Bias uint8

// The biases.
const (
	HostBias Bias = iota
	DeviceBias
)

func (b Bias) String() string { return [...]string{"host bias", "device bias"}[b] }

// Cores is the set of the host's cores that hold a line. Host and Peer run on a core each.
type Cores uint8

// The sets of cores. InLLC is no core: if the host has the line, it is in the last-level cache.
const (
	InLLC    Cores = 0
	HostCore Cores = 1 << model.Host
	PeerCore Cores = 1 << model.Peer
	AllCores       = HostCore | PeerCore
)

// A State is the state of one line: where it belongs, and which caches hold it. The host's caches
// are one party, as the device sees them; Cores says where in the host the line is. A device that is a
// core of the host (fabric mesi) is still Dev.
type State struct {
	Home  Home
	Bias  Bias
	Host  MESI
	Cores Cores
	Dev   MESI
}

func (s State) String() string {
	return fmt.Sprintf("%v memory, %v, host %v in cores %02b, device %v", s.Home, s.Bias, s.Host, s.Cores, s.Dev)
}

// Check returns an error if s breaks an invariant: one writer, or no copies in a cache that may have none.
func (s State) Check() error {
	switch {
	case (s.Host >= E && s.Dev != I) || (s.Dev >= E && s.Host != I):
		return fmt.Errorf("%v: two caches, one of which is exclusive", s)
	case s.Host == I && s.Cores != InLLC:
		return fmt.Errorf("%v: a core holds a line that the host does not have", s)
	case s.Host >= E && s.Cores == AllCores:
		return fmt.Errorf("%v: two cores hold an exclusive line", s)
	case s.Bias == DeviceBias && (s.Home != DeviceMemory || s.Host != I):
		return fmt.Errorf("%v: device bias needs device memory, and no copy in the host", s)
	case s.Home == DeviceMemory && s.Dev > S:
		return fmt.Errorf("%v: the device's cache is never newer than its own memory", s)
	}
	return nil
}

// States returns all states that Check accepts.
func States() (all []State) {
	for home := range homes {
		for bias := HostBias; bias <= DeviceBias; bias++ {
			for host := I; host <= M; host++ {
				for cores := InLLC; cores <= AllCores; cores++ {
					for dev := I; dev <= M; dev++ {
						if s := (State{home, bias, host, cores, dev}); s.Check() == nil {
							all = append(all, s)
						}
					}
				}
			}
		}
	}
	return all
}
