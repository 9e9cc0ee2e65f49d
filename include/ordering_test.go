package include

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests check that the scopes and fences of the headers suffice on a GPU. The instructions come from
// base.h, and the order in which a poster uses them from sq.h and cq.h. TestInterleavings of package hostpath
// explores the same protocol on the assumption that every step becomes visible to all at once; here
// each outcome that would break the protocol is looked for in the memory model of PTX.

// primitives returns the instructions of each function of base.h that accesses shared words.
func primitives(t *testing.T) map[string][]instr {
	t.Helper()
	text := source(t, "base.h")
	_, text, _ = strings.Cut(text, "#if defined(NICLESS_ON_DEVICE)\n")
	text, _, found := strings.Cut(text, "\n#else\n")
	require.True(t, found)
	text = strings.ReplaceAll(text, `NICLESS_POSTER_SCOPE`, `"gpu"`)
	text = regexp.MustCompile(`"\s*"`).ReplaceAllString(text, "")
	head := regexp.MustCompile(`NICLESS_HD \w+ nicless_(\w+)\(.*?\) \{`)
	template := regexp.MustCompile(`asm volatile\("(.*?)"`)
	another := regexp.MustCompile(`nicless_(\w+)\(`)
	all := map[string][]instr{}
	places := head.FindAllStringSubmatchIndex(text, -1)
	for i, p := range places {
		body := text[p[1]:]
		if i+1 < len(places) {
			body = text[p[1]:places[i+1][0]]
		}
		name := text[p[2]:p[3]]
		if code := template.FindStringSubmatch(body); code != nil {
			for _, line := range strings.Split(strings.TrimSuffix(code[1], ";"), `;\n\t`) {
				all[name] = append(all[name], parseInstr(t, line))
			}
			continue
		}
		other := another.FindStringSubmatch(body)
		require.NotNil(t, other, name)
		require.Contains(t, all, other[1], name)
		all[name] = all[other[1]]
	}
	return all
}

func parseInstr(t *testing.T, line string) instr {
	t.Helper()
	words := strings.Split(strings.Fields(line)[0], ".")
	require.GreaterOrEqual(t, len(words), 3, line)
	i := instr{fence: words[0] == "fence", load: words[0] != "st" && words[0] != "fence", store: words[0] == "st" || words[0] == "atom"}
	switch words[1] {
	case "sc":
		i.sc = true
	case "acquire":
		i.acquire = true
	case "release":
		i.release = true
	case "acq_rel":
		i.acquire, i.release = true, true
	case "relaxed":
	default:
		t.Fatal(line)
	}
	scopes := map[string]scope{"cta": blockScope, "gpu": gpuScope, "sys": sysScope}
	require.Contains(t, scopes, words[2], line)
	i.scope = scopes[words[2]]
	return i
}

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("nicless/" + name)
	require.NoError(t, err)
	return string(text)
}

// uses returns which functions of base.h a function of a header calls, and for which words, in the order of
// the text.
func uses(t *testing.T, file, function string) []string {
	t.Helper()
	_, body, found := strings.Cut(source(t, file), " "+function+"(")
	require.True(t, found, function)
	body, _, _ = strings.Cut(body, "\n}\n")
	var all []string
	for _, m := range regexp.MustCompile(`nicless_(\w*(?:publish|observe|store|load|swap|fence)\w*)\((?:&?\w+->(\w+))?`).FindAllStringSubmatch(body, -1) {
		all = append(all, strings.TrimSpace(m[1]+" "+m[2]))
	}
	return all
}

// The poster's functions access shared words in the order that the outcomes below assume.
func TestOrderOfAccesses(t *testing.T) {
	for _, c := range []struct {
		file, function string
		want           []string
	}{
		{"sq.h", "nicless_sq_reserve", []string{
			"poster_observe64 seen", "poster_load64 reserved", "poster_observe64 freed", "poster_publish64 seen",
			"poster_swap64 reserved",
		}},
		{"sq.h", "nicless_sq_note", []string{"poster_store64 note", "poster_store64 note"}},
		{"sq.h", "nicless_sq_commit", []string{"ordered_store64 stamp"}},
		{"sq.h", "nicless_sq_ring", []string{
			"ordered_swap64 ringing", "poster_observe64 stamp", "ordered_store64 ringing", "ordered_load64 stamp",
		}},
		{"sq.h", "nicless_sq_doorbell", []string{
			"poster_load64 note", "poster_store64 rung", "system_fence", "fenced_store32 record", "fenced_store64 reg",
		}},
		{"sq.h", "nicless_sq_complete", []string{"poster_observe64 rung", "poster_publish64 freed"}},
		{"cq.h", "nicless_cqe_observe", []string{"observe64"}},
		{"cq.h", "nicless_cq_look", []string{
			"poster_observe64 freed", "cqe_observe", "poster_load64 rung", "poster_load64 note", "poster_publish_swap64 freed",
		}},
		{"cq.h", "nicless_cq_advance", []string{"poster_swap64 looking", "poster_store64 looking"}},
		{"rq.h", "nicless_rq_ring", []string{"poster_store64 posted", "publish32 record"}},
		{"rq.h", "nicless_rq_complete", []string{"poster_observe64 posted", "poster_publish64 freed"}},
	} {
		require.Equal(t, c.want, uses(t, c.file, c.function), c.function)
	}
}

// A post that finds room, and nobody ringing, has one fence of system scope, and four of the GPU's: as many
// as there are fences and releases, because on a GPU a release is a fence and a store.
func TestFencesOfAPost(t *testing.T) {
	p := primitives(t)
	commit := []string{"ordered_store64"}
	ring := []string{"ordered_swap64", "poster_observe64", "ordered_store64", "ordered_load64"}
	doorbell := []string{"poster_load64", "poster_store64", "system_fence", "fenced_store32", "fenced_store64"}
	require.Equal(t, "1 of the system, 4 of the GPU", fences(p, slices.Concat(commit, ring, doorbell)...))
	advance := []string{"poster_observe64", "observe64", "poster_load64", "poster_load64", "poster_publish_swap64"}
	require.Equal(t, "0 of the system, 1 of the GPU", fences(p, advance...))
	receive := []string{"poster_observe64", "poster_store64", "publish32"}
	require.Equal(t, "1 of the system, 0 of the GPU", fences(p, receive...))
}

func fences(p map[string][]instr, calls ...string) string {
	var n [3]int
	for _, c := range calls {
		for _, i := range p[c] {
			if i.fence || i.release {
				n[i.scope]++
			}
		}
	}
	return fmt.Sprintf("%d of the system, %d of the GPU", n[sysScope], n[gpuScope])
}

// With the instructions of the headers, nothing happens that must not, and what has to happen can.
func TestOrdering(t *testing.T) {
	for _, o := range outcomes(primitives(t)) {
		require.False(t, o.litmus().possible(), o.name)
		require.True(t, o.turned().litmus().possible(), "%s: the right outcome", o.name)
	}
}

// A poster that lacks an ordering, or has it in a smaller scope, can break the protocol in the way that is
// named here.
func TestOrderingFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name, function string
		instead        []instr
		breaks         string
	}{
		{"no fence before the record", "system_fence", nil, "a WQE is executed before all of it is written"},
		{"a fence of the GPU before the record", "system_fence", []instr{{fence: true, acquire: true, release: true, scope: gpuScope}},
			"a WQE is executed before all of it is written"},
		{"a sequentially consistent fence of the GPU before the record", "system_fence", []instr{{fence: true, sc: true, scope: gpuScope}},
			"a WQE is executed before all of it is written"},
		{"a record of the GPU's scope", "fenced_store32", []instr{{store: true, scope: gpuScope}}, "a WQE is executed before all of it is written"},
		{"a register of the GPU's scope", "fenced_store64", []instr{{store: true, scope: gpuScope}},
			"a queue that the register starts executes a WQE before all of it is written"},
		{"a commit without order", "ordered_store64", []instr{{store: true, scope: gpuScope}}, "a WQE is executed before all of it is written"},
		{"a commit in the scope of a block", "ordered_store64", []instr{{store: true, release: true, scope: blockScope}}, "the record goes back"},
		{"a swap without a fence", "ordered_swap64", []instr{{load: true, store: true, acquire: true, release: true, scope: gpuScope}}, "a doorbell is lost"},
		{"a last look without a fence", "ordered_load64", []instr{{load: true, acquire: true, scope: gpuScope}}, "a doorbell is lost"},
		{"a CQE in the scope of the GPU", "observe64", []instr{{load: true, acquire: true, scope: gpuScope}}, "a poller finds the note of a lap before"},
		{"freed without order", "poster_publish_swap64", []instr{{load: true, store: true, scope: gpuScope}}, "a lane that waits does not see what was read"},
		{"a receive in the scope of the GPU", "publish32", []instr{{store: true, release: true, scope: gpuScope}}, "a receive is taken before all of it is written"},
	} {
		p := maps.Clone(primitives(t))
		require.NotEqual(t, p[c.function], c.instead, c.name)
		p[c.function] = c.instead
		var broken []string
		for _, o := range outcomes(p) {
			if o.litmus().possible() {
				broken = append(broken, o.name)
			}
		}
		require.Contains(t, broken, c.breaks, c.name)
	}
}

// Nothing that orders is superfluous: each instruction, made weaker in one respect, can break the protocol,
// but for those named here.
func TestOrderingIsNeeded(t *testing.T) {
	real := primitives(t)
	spare := map[string]bool{}
	for name, code := range real {
		for k := range code {
			for what, weaker := range weakened(code, k) {
				p := maps.Clone(real)
				p[name] = weaker
				broken := false
				for _, o := range outcomes(p) {
					broken = broken || o.litmus().possible()
				}
				if !broken {
					spare[fmt.Sprintf("%s: %s", name, what)] = true
				}
			}
		}
	}
	require.Equal(t, map[string]bool{
		// Plain in effect, because others order them. Their scope says who may access the word.
		"load64: a smaller scope": true, "store64: a smaller scope": true,
		"poster_load64: a smaller scope": true, "poster_store64: a smaller scope": true,
		// As observe64, which is needed: for words of 32 bits that pe_wait.h waits for. No path here has one.
		"observe32: a smaller scope": true, "observe32: no acquire": true,
		// nicless_sq_ring reads nothing after its last look.
		"ordered_load64: a smaller scope": true,
	}, spare)
}

// Each ordering of accel/cuda/poster.cu is needed where it is: without it, at this call alone, the outcome
// that is named here is possible. TestCUDAPosterOrderings of package accel has the same list, of its PTX.
func TestOrderingOfEachCall(t *testing.T) {
	real := primitives(t)
	for _, c := range []struct{ call, what, breaks string }{
		{"poster_observe64@reserve seen", "no acquire", "a slot is written again while the device reads it: by a copy of freed"},
		{"poster_observe64@reserve", "no acquire", "a slot is written again while the device reads it"},
		{"poster_publish64", "no release", "a slot is written again while the device reads it: by a copy of freed"},
		{"poster_observe64@look", "no acquire", "a poller takes an old CQE for one of 65,536 blocks later"},
		{"observe64", "no acquire", "a poller finds the note of a lap before"},
		{"poster_publish_swap64", "no release", "a note is written again while the poller reads it"},
		{"ordered_store64@commit", "no release", "a WQE is executed before all of it is written"},
		{"ordered_swap64", "no fence", "a doorbell is lost"},
		{"ordered_swap64", "no acquire", "the next to ring takes the wrong half of the register"},
		{"poster_observe64@ring", "no acquire", "the register shows a WQE before all of it is written"},
		{"system_fence", "no fence", "a lane alone rings before all of its WQE is written"},
		{"ordered_store64@ring", "no release", "the record goes back"},
		{"ordered_load64", "no fence", "a doorbell is lost"},
		{"poster_observe64@quiet", "no acquire", "a lane that waits does not see what was read"},
	} {
		function, _, _ := strings.Cut(c.call, "@")
		var broken []string
		for k := range real[function] {
			p := maps.Clone(real)
			weaker, found := weakened(real[function], k)[c.what]
			if !found {
				continue
			}
			p[c.call] = weaker
			for _, o := range outcomes(p) {
				if o.litmus().possible() {
					broken = append(broken, o.name)
				}
			}
		}
		require.Contains(t, broken, c.breaks, "%s: %s", c.call, c.what)
	}
}

// weakened returns what becomes of code if instruction k is weaker.
func weakened(code []instr, k int) map[string][]instr {
	all := map[string][]instr{}
	change := func(what string, f func(*instr)) {
		c := append([]instr{}, code...)
		f(&c[k])
		all[what] = c
	}
	i := code[k]
	if i.fence {
		all["no fence"] = append(append([]instr{}, code[:k]...), code[k+1:]...)
	}
	if i.sc {
		change("a fence that is not sequentially consistent", func(i *instr) { i.sc = false })
	}
	if i.acquire && !i.fence {
		change("no acquire", func(i *instr) { i.acquire = false })
	}
	if i.release && !i.fence {
		change("no release", func(i *instr) { i.release = false })
	}
	if i.scope > blockScope {
		change("a smaller scope", func(i *instr) { i.scope-- })
	}
	return all
}
