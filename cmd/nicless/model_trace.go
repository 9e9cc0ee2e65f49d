package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/tools/costs"
	"github.com/nicless/nicless/trace"
)

// synthOps returns the names that --synth may have.
func synthOps() []string { return append([]string{"loopback"}, traffic.Ops()...) }

// formFlags are the flags that say how synthetic requests are made.
var formFlags = []string{"inline", "blueflame", "batch", "signal", "sges", "srq", "prefetch"}

// maxWarm is the most requests for warming up.
const maxWarm = 1000

var agents = map[string]model.Agent{"host": model.Host, "peer": model.Peer, "dev": model.Dev}

// trace returns the trace that the flags ask for, the part of it that is reported, and a title.
func (f *modelFlags) trace(stdin io.Reader) (t model.Trace, o costs.Options, title string, err error) {
	until, ok := agents[f.until]
	switch {
	case !slices.Contains(synthOps(), f.synth):
		err = usagef("one of "+strings.Join(synthOps(), ", "), "model: --synth %q does not exist", f.synth)
	case !ok:
		err = usagef("host, peer or dev", "model: --until %q does not exist", f.until)
	case f.warm < 0 || f.warm > maxWarm:
		err = usagef("leave it out for the default", "model: --warm %d; 0 to %d are possible", f.warm, maxWarm)
	case f.file != "":
		title = "trace " + f.file
		t, err = f.read(stdin)
	case f.synth == "loopback":
		if !f.changed("until") {
			until = model.Dev // the end of the loop
		}
		title = fmt.Sprintf("loopback of %d bytes", f.bytes)
		t, o.Warm, err = f.loopback()
	default:
		t, o.Warm, title, err = f.synthetic()
	}
	if err != nil {
		return t, o, "", err
	}
	o.Until = until
	if f.changed("warm") {
		o.Warm = f.warm
	}
	title += f.how() + map[model.Agent]string{
		model.Host: ", until the host has loaded the last line that it waits for",
		model.Peer: ", until the peer has loaded the last line that it waits for",
		model.Dev:  ", until the device has loaded the last line",
	}[until]
	return t, o, title, nil
}

// synthetic returns a trace of steady traffic, how many requests are for warming up, and a title.
func (f *modelFlags) synthetic() (t model.Trace, warm int, title string, err error) {
	for _, n := range []struct {
		name string
		v    int
	}{{"batch", f.form.Batch}, {"signal", f.form.Signaled}, {"sges", f.form.SGEs}} {
		if n.v < 1 {
			return t, 0, "", usagef("leave it out for the default", "model: --%s %d; at least 1 is possible", n.name, n.v)
		}
	}
	bytes := f.bytes
	if atomic := strings.HasSuffix(f.synth, "-add") ||
		strings.HasSuffix(f.synth, "-swap"); atomic && !f.changed("bytes") {
		bytes = 8
	}
	form := f.form
	form.Ring = 64
	if form.Batch == 1 && form.SGEs == 1 {
		lines := bytes / model.LineSize
		for form.Ring > 4 && form.Ring*lines > 8192 { // long payloads hide what the end of a lap costs
			form.Ring /= 2
		}
	}
	form.Requests = 3*form.Ring + f.warm*form.Batch
	title = fmt.Sprintf("%s of %d bytes", f.synth, bytes)
	if t, err = traffic.Synth(f.synth, bytes, form); err != nil {
		flags := fmt.Sprintf("--synth %s --bytes %d", f.synth, bytes)
		for _, name := range formFlags {
			if f.changed(name) {
				flags += fmt.Sprintf(" --%s=%s", name, f.cmd.Flags().Lookup(name).Value)
			}
		}
		err = usagef(`"nicless model --help" lists the flags`, "model: %s: %w", flags, err)
	}
	return t, form.Ring / form.Batch, title, err
}

// loopback returns the trace of packets to the device and back, and how many of them are for warming up.
func (f *modelFlags) loopback() (t model.Trace, warm int, err error) {
	const hint = `"nicless model --help" lists the flags`
	for _, name := range formFlags {
		if f.changed(name) && name != "prefetch" {
			return t, 0, usagef(hint, "model: --synth loopback: --%s is not for it", name)
		}
	}
	warm = 4
	if t, err = costs.Loopback(f.bytes, warm+8+f.warm); err != nil {
		return t, 0, usagef(hint, "model: --synth loopback --bytes %d: %w", f.bytes, err)
	}
	if f.changed("prefetch") && !f.form.Prefetched {
		t.Accesses = slices.DeleteFunc(t.Accesses,
			func(a model.Access) bool { return a.Why == model.Prefetch })
	}
	return t, warm, nil
}

// read reads the trace that --trace names.
func (f *modelFlags) read(stdin io.Reader) (t model.Trace, err error) {
	for _, name := range append([]string{"synth", "bytes"}, formFlags...) {
		if f.changed(name) {
			return t, usagef("the trace says what was done", "model: --trace and --%s exclude each other", name)
		}
	}
	in := stdin
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return t, fmt.Errorf("model: trace: %w", err)
		}
		defer file.Close()
		in = file
	}
	b := bufio.NewReader(in)
	if head, _ := b.Peek(len(trace.Magic)); string(head) == trace.Magic {
		return t, hintf(fmt.Sprintf("nicless trace show %s --format lines | nicless model --trace -", plain(f.file)),
			"model: %s is a trace of a device, and not of accesses to cache lines", plain(f.file))
	}
	if t, err = model.ReadTrace(b); err != nil {
		return t, hintf("go doc github.com/nicless/nicless/model ReadTrace describes the form, and nicless model --out trace prints an example", "model: %s: %w", f.file, err)
	}
	return t, nil
}

// noteUnused reports requests of --request that change nothing: the device makes no such access, or all
// presets have a request for the access that precedes it.
func (f *modelFlags) noteUnused(presets []*costs.Preset, t model.Trace, stderr io.Writer) {
	for _, pair := range f.request {
		pair = strings.TrimSpace(pair)
		key, _, _ := strings.Cut(pair, "=")
		if !slices.ContainsFunc(presets,
			func(p *costs.Preset) bool { return p.UsesRequest(t, requestKey(key)) }) {
			fmt.Fprintf(stderr, "nicless: note: --request %s: no access of the device uses it here\n", pair)
		}
	}
}

// how returns the flags that change the requests or the presets, for the title.
func (f *modelFlags) how() (s string) {
	for _, name := range append(slices.Clone(formFlags), "ncp", "place", "request", "set") {
		if !f.changed(name) {
			continue
		}
		v := strings.Trim(f.cmd.Flags().Lookup(name).Value.String(), "[]")
		switch {
		case v == "true":
			s += ", " + name
		case v == "false":
			s += ", no " + name
		case strings.Contains(v, "="):
			s += ", " + strings.ReplaceAll(v, ",", ", ")
		default:
			s += ", " + name + " " + v
		}
	}
	return s
}
