package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field"
)

// sample has one field of each sort.
var sample = field.Tree{
	{Offset: 0, Len: 1, Name: "opcode", Value: uint8(8), Text: "RDMA_WRITE"},
	{Offset: 1, Len: 1, Text: "reserved"},
	{Name: "blocks", Value: 1},
	{Name: "fence", Value: uint8(4), Text: "small and fence"},
	{Offset: 2, Len: 2, Name: "key", Value: field.Hex32(0x1a2)},
	{Name: "empty", List: []field.Field{}},
	{Name: "segments", List: []field.Field{
		{Offset: 4, Len: 10, Name: "inline", Sub: field.Tree{
			{Name: "offset", Value: 4},
			{Name: "type", Value: "inline"},
			{Offset: 4, Len: 10, Name: "data", Value: field.Bytes("0123456789"), Text: "10 bytes"},
		}},
	}},
	{Name: "wc", Text: "as a poller sees it", Sub: field.Tree{
		{Name: "addr", Value: field.Hex64(1 << 40), Text: "local"},
		{Name: "big", Value: uint64(1<<64 - 1), Text: "largest"},
		{Name: "text", Value: `a "b"`, Text: "quoted"},
		{Name: "loose", Value: field.Bytes{0xab}, Text: "no place"},
		{Name: "flag", Value: true, Text: "a bit"},
	}},
}

var sampleBytes = append([]byte{8, 0, 1, 0xa2}, "0123456789"...)

func TestJSONKeepsOrderAndForms(t *testing.T) {
	got, err := json.Marshal(sample)
	require.NoError(t, err)
	want := `{"opcode":8,"blocks":1,"fence":4,"key":"0x000001a2","empty":[],` +
		`"segments":[{"offset":4,"type":"inline","data":"30313233343536373839"}],` +
		`"wc":{"addr":"0x0000010000000000","big":18446744073709551615,"text":"a \"b\"","loose":"ab","flag":true}}`
	assert.Equal(t, want, string(got))

	got, err = json.Marshal(field.Tree{})
	require.NoError(t, err)
	assert.Equal(t, "{}", string(got))
}

func TestJSONRefusesAnUnknownValue(t *testing.T) {
	_, err := json.Marshal(field.Tree{{Name: "x", Value: 1.5}})
	assert.ErrorContains(t, err, "field: x: a value of type float64 has no JSON form")
}

func TestPrint(t *testing.T) {
	var s strings.Builder
	require.NoError(t, sample.Print(&s, sampleBytes))
	want := `00  08                       opcode    8  RDMA_WRITE
01  00                       -  reserved
                             fence     4  small and fence
02  01 a2                    key       0x000001a2
04                           inline
04  30 31 32 33 34 35 36 37    data  10 bytes
0c  38 39
00                           wc  as a poller sees it
                               addr    0x0000010000000000  local
                               big     18446744073709551615  largest
                               text    a "b"  quoted
                               loose   ab  no place
                               flag    true  a bit
`
	assert.Equal(t, want, s.String())
}

// A field that is past the end of the bytes must not make Print panic.
// Of many lines of zeros the first and the last are shown; fewer are shown as they are.
func TestPrintZeros(t *testing.T) {
	for _, c := range []struct {
		zeros, lines int
		star         bool
	}{{16, 18, false}, {17, 5, true}, {512, 5, true}} {
		b := make([]byte, 8*(c.zeros+2))
		b[0], b[len(b)-1] = 1, 2
		var out strings.Builder
		require.NoError(t, field.Tree{{Len: len(b), Text: "reserved"}}.Print(&out, b))
		assert.Equal(t, c.star, strings.Contains(out.String(), "*\n"), "%d lines of zeros", c.zeros)
		assert.Equal(t, c.lines, strings.Count(out.String(), "\n"), "%d lines of zeros\n%s", c.zeros, &out)
		assert.Contains(t, out.String(), fmt.Sprintf("%x  00 00 00 00 00 00 00 02\n", len(b)-8))
	}
}

func TestPrintPastTheEnd(t *testing.T) {
	var s strings.Builder
	tree := field.Tree{{Offset: 2, Len: 8, Name: "cut", Value: uint8(1), Text: "t"}, {Offset: 9, Len: 1, Name: "gone", Value: uint8(2), Text: "t"}}
	require.NoError(t, tree.Print(&s, []byte{1, 2, 3}))
	assert.Contains(t, s.String(), "02  03 ")
	assert.Contains(t, s.String(), "gone")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestPrintReturnsTheWritersError(t *testing.T) {
	assert.EqualError(t, sample.Print(full{}, sampleBytes), "disk full")
}

func ExampleTree_Print() {
	b := []byte{0x00, 0x00, 0x0a, 0x08}
	t := field.Tree{
		{Offset: 0, Len: 1, Name: "opmod", Value: b[0]},
		{Offset: 1, Len: 2, Name: "wqe_index", Value: uint16(10)},
		{Offset: 3, Len: 1, Name: "opcode", Value: b[3], Text: "RDMA_WRITE"},
	}
	if err := t.Print(os.Stdout, b); err != nil {
		panic(err)
	}
	// Output:
	// 00  00                       opmod      0
	// 01  00 0a                    wqe_index  10
	// 03  08                       opcode     8  RDMA_WRITE
}
