package programs

import (
	"testing"
)

// A place is how and where programs run: how the engine reaches their memory, and whether
// engine and programs are in a network namespace of their own.
type place struct {
	name  string
	flags []string // for nicless run
	apart bool     // in a namespace that has no interface but lo, as "unshare -Ur -n" makes it
}

// places has every mode outside and inside a namespace.
func places() (list []place) {
	for _, apart := range []bool{false, true} {
		for _, mode := range modes {
			p := place{name: mode.name, flags: mode.flags, apart: apart}
			if apart {
				p.name += ", apart"
			}
			list = append(list, p)
		}
	}
	return list
}

// newLabAt starts an engine in a place. Its log says what calls programs make, so that tests
// can wait for a call.
func newLabAt(t *testing.T, p place, engineFlags ...string) *lab {
	t.Helper()
	need(t)
	l := &lab{t: t, flags: p.flags, engineFlags: append([]string{"--log-level", "debug"}, engineFlags...)}
	if p.apart {
		l.inside = newNamespace(t)
	}
	l.open()
	return l
}

// newNamespace makes a user namespace with a network namespace in which only lo is up. It
// returns the command line under which programs run there.
func newNamespace(t *testing.T) []string {
	t.Helper()
	need(t, "unshare", "nsenter", "ip")
	p := start(t, nil, "unshare", "--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
	p.says("up")
	return []string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", itoa(p.cmd.Process.Pid), "--"}
}

// with returns the lab for another test, which has its own failures and runs beside others.
func (l *lab) with(t *testing.T) *lab {
	other := *l
	other.t = t
	if l.far != nil {
		other.far = l.far.with(t)
	}
	return &other
}
