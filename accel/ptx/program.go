package ptx

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/machine"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// Errors of programs, and of launches.
var (
	ErrLaunch   = machine.ErrLaunch // Run: the grid is impossible
	ErrNoKernel = errors.New("no such kernel")
	ErrClosed   = errors.New("the program is closed")
)

// A Module is a PTX text. Errors name it by its name, which may be that of a file.
type Module struct{ Name, Text string }

// A Program is modules that are linked, and the memory of their variables. Its methods are safe for
// concurrent use.
type Program struct {
	linked *machine.Program
	space  *machine.Space

	mu     sync.Mutex
	memory machine.Arena    // of variables
	at     []uint64         // where they begin
	idle   []*machine.Arena // of grids that have ended
	busy   int              // grids that are executed
	closed bool
}

// Load links modules to a program. Kernels reach the program's variables, and the memory of a space, which
// other programs may share.
func Load(space *Space, modules ...Module) (*Program, error) {
	var built []*code.Module
	for _, m := range modules {
		tree, err := syntax.Parse(m.Text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		b, err := code.Build(tree)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		built = append(built, b)
	}
	p := &Program{space: &space.reached}
	linked, err := machine.Link(built, (*variables)(p))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.linked = linked
	return p, nil
}

// Variables are the memory of a program's variables.
type variables Program

func (v *variables) Allocate(size, align int64) (address uint64, bytes []byte, err error) {
	if address, bytes, err = v.memory.Allocate(size, align); err != nil {
		return 0, nil, err
	}
	if err := v.space.Add(address, uint64(size)); err != nil {
		return 0, nil, err
	}
	v.at = append(v.at, address)
	return address, bytes, nil
}

// Close gives the memory of the variables back. No grid of the program may be executed.
func (p *Program) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.busy > 0 {
		return fmt.Errorf("%d grids of the program are executed", p.busy)
	}
	p.closed = true
	var failed error
	for _, at := range p.at {
		failed = errors.Join(failed, p.space.Remove(at))
	}
	for _, a := range p.idle {
		failed = errors.Join(failed, a.Close())
	}
	return errors.Join(failed, p.memory.Close())
}

// begin returns memory for a grid.
func (p *Program) begin() (*machine.Arena, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	p.busy++
	if last := len(p.idle) - 1; last >= 0 {
		a := p.idle[last]
		p.idle = p.idle[:last]
		return a, nil
	}
	return new(machine.Arena), nil
}

// end takes memory of a grid back.
func (p *Program) end(a *machine.Arena) error {
	err := a.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.idle = append(p.idle, a)
	return err
}

// Kernels returns the names of all kernels, sorted.
func (p *Program) Kernels() []string {
	var names []string
	for k := range p.linked.Kernels() {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// Kernel returns the kernel with a name: that of the PTX, or, if there is one such kernel, the name of a
// function of C++ without its namespaces and arguments. An error says why the kernel cannot be executed.
func (p *Program) Kernel(name string) (*Kernel, error) {
	found := name
	if !slices.Contains(p.Kernels(), name) {
		var all []string
		for _, k := range p.Kernels() {
			if plain(k) == name {
				all = append(all, k)
			}
		}
		if len(all) != 1 {
			there := strings.Join(p.Kernels(), ", ")
			return nil, fmt.Errorf("%s: %w; there are: %s", name, ErrNoKernel, there)
		}
		found = all[0]
	}
	k, err := p.linked.Kernel(found)
	if err != nil {
		return nil, err
	}
	return &Kernel{k, p}, nil
}

// plain returns the last name in a name of C++'s ABI: _Z3putP6Posterj is put, and _ZN3foo3barEv is bar.
func plain(mangled string) string {
	rest, ok := strings.CutPrefix(mangled, "_Z")
	if !ok {
		return ""
	}
	rest = strings.TrimPrefix(rest, "N")
	last := ""
	for rest != "" && rest[0] >= '1' && rest[0] <= '9' {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 0 {
			return ""
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n > len(rest)-digits {
			return ""
		}
		last, rest = rest[digits:digits+n], rest[digits+n:]
		if !strings.HasPrefix(mangled, "_ZN") {
			break
		}
	}
	return last
}

// Variable returns the address and the size of a global or constant variable.
func (p *Program) Variable(name string) (address uint64, size int64, err error) {
	s, err := p.linked.Variable(name)
	return s.Address, s.Size, err
}
