package costs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
)

// place puts a structure into a memory.
func (p *Preset) place(structure, home string) error {
	s := slices.Index(model.StructureNames(), structure)
	if s < 0 {
		return fmt.Errorf("is no structure; there are %s", strings.Join(model.StructureNames(), ", "))
	}
	h := slices.Index(homeNames, home)
	if h < 0 {
		return fmt.Errorf("%q is none of %s", home, strings.Join(homeNames, ", "))
	}
	if !slices.Contains(p.Fabric.Homes, Home(h)) {
		return fmt.Errorf("fabric %s has no %s memory, only %s", p.Fabric.Name, home, p.Fabric.homes())
	}
	p.Place[model.Structure(s)] = Home(h)
	return nil
}

// home returns where a structure is. The device's tables of keys are its own, so no fabric matters.
func (p *Preset) home(s model.Structure) Home {
	if h, ok := p.Place[s]; ok {
		return h
	}
	return p.Fabric.Homes[0]
}

// request sets the device's request for a kind of access.
func (p *Preset) request(key, name string) error {
	kind, what, ok := strings.Cut(key, ".")
	known := slices.Contains(model.WhyNames(), what) || slices.Contains(model.OpNames(), what)
	if !ok || !known || !slices.Contains(model.KindNames(), kind) {
		return fmt.Errorf("is not a kind (%s), a dot, and a reason (%s) or an operation (%s)",
			strings.Join(model.KindNames(), ", "), strings.Join(model.WhyNames(), ", "),
			strings.Join(model.OpNames(), ", "))
	}
	r := slices.Index(requestNames, name)
	possible := slices.Contains(p.Fabric.Reads, Request(r)) || slices.Contains(p.Fabric.Writes, Request(r))
	if r < 0 || !possible {
		return fmt.Errorf("%q is no request of a device on fabric %s%s", name, p.Fabric.Name, p.Fabric.deviceRequests())
	}
	p.Request[key] = Request(r)
	return nil
}

// choose returns the requests that an access becomes, for each of its lines: one, or two for an atomic of a
// device that is no core.
func (p *Preset) choose(a *model.Access) ([]Request, error) {
	if r := p.fixed(a); r != nil {
		return r, nil
	}
	fits := p.Fabric.Reads
	if writes(a) {
		fits = p.Fabric.Writes
	}
	key, ok := p.requestKey(a)
	if !ok {
		return fits[:1], nil
	}
	r := p.Request[key]
	if !slices.Contains(fits, r) {
		return nil, fmt.Errorf("preset %s: request.%s: %v does not do for a %v", p.Name, key, r, a.Op)
	}
	return []Request{r}, nil
}

// fixed returns the requests of an access for which presets have no choice, or nil.
func (p *Preset) fixed(a *model.Access) []Request {
	f := p.Fabric
	doorbell := f.Bells && (a.Kind == model.Record || a.Kind == model.UAR)
	rung := writes(a) && a.Why == model.Signal
	polled := a.Op == model.Load && a.Why == model.Poll && a.Who == model.Dev
	switch {
	case doorbell && (rung || polled):
		return []Request{Bell}
	case a.Who == model.Dev && len(f.Reads) > 0 && a.Op == model.Flush:
		return []Request{DevFlush}
	case a.Who == model.Dev && len(f.Reads) > 0 && a.Op == model.RMW:
		return f.atomic()
	case a.Who == model.Dev && len(f.Reads) > 0:
		return nil
	case a.Op == model.StoreNT:
		return []Request{CoreStoreNT}
	case a.Op == model.Flush:
		return []Request{CoreFlush}
	case writes(a):
		return []Request{CoreStore}
	case a.Why == model.Once:
		return []Request{CoreKnown}
	}
	return []Request{CoreLoad}
}

// writes reports whether an access writes the line.
func writes(a *model.Access) bool {
	return a.Op == model.Store || a.Op == model.StoreNT || a.Op == model.RMW
}

// UsesRequest reports whether some access of t becomes the request that the preset has under a key, such as
// "record.poll".
func (p *Preset) UsesRequest(t model.Trace, key string) bool {
	return slices.ContainsFunc(t.Accesses, func(a model.Access) bool {
		used, ok := p.requestKey(&a)
		return ok && used == key && p.fixed(&a) == nil
	})
}

// requestKey returns the key under which the preset has the request for an access: one with the reason
// precedes one with the operation.
func (p *Preset) requestKey(a *model.Access) (key string, ok bool) {
	for _, key := range [...]string{a.Kind.String() + "." + a.Why.String(),
		a.Kind.String() + "." + a.Op.String()} {
		if _, ok := p.Request[key]; ok {
			return key, true
		}
	}
	return "", false
}

// atomic returns the requests of a device's read-modify-write: it reads the line, owning it if it can, and
// writes it.
func (f *Fabric) atomic() []Request {
	if slices.Contains(f.Reads, CORead) {
		return []Request{CORead, COWrite}
	}
	return []Request{f.Reads[0], f.Writes[0]}
}

func (f *Fabric) homes() string {
	names := make([]string, len(f.Homes))
	for i, h := range f.Homes {
		names[i] = h.String()
	}
	return strings.Join(names, " and ")
}

func (f *Fabric) deviceRequests() string {
	if len(f.Reads) == 0 {
		return ", where the device is a core"
	}
	var names []string
	for _, r := range slices.Concat(f.Reads, f.Writes) {
		names = append(names, r.String())
	}
	return ": " + strings.Join(names, ", ")
}

func fabricNames() string {
	var names []string
	for _, f := range fabrics {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
