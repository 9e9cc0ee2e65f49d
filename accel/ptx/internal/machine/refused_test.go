package machine

import (
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
)

// refused are texts that no GPU executes, and what is said of their kernel k.
var refused = []struct{ name, text, want string }{
	{
		"madc without modifiers", `.entry k(.param .u64 out) { madc; ret; }`,
		"madc: it has one type of 32 or 64 bits",
	},
	{
		"atomic addition of 16 bits",
		`.entry k(.param .u64 out) {` + prelude + `.reg .b16 %h; mov.b16 %h, 1; red.global.add.u16 [%o], %h; ret; }`,
		".add of .u16 is not supported",
	},
}

// A text that is wrong is an error of its module, of its kernel or of a lane, and nothing else.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, refusal(t, c.text), c.want)
		})
	}
}

// refusal returns why kernel k of a text is not executed to its end.
func refusal(t *testing.T, text string) error {
	s, err := syntax.Parse(".version 8.0\n.target sm_90\n.address_size 64\n" + text)
	if err != nil {
		return err
	}
	m, err := code.Build(s)
	if err != nil {
		return err
	}
	r := &rig{t: t, mem: newMemory(t)}
	r.prog, err = Link([]*code.Module{m}, r.mem)
	if err != nil {
		return err
	}
	_, err = r.run("k", 1, 32, 64)
	return err
}
