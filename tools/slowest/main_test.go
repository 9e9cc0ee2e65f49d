package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailuresAndTable(t *testing.T) {
	const in = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestA"}
{"Action":"output","Package":"a","Test":"TestA","Output":"a log of one that passes\n"}
{"Action":"run","Package":"a","Test":"TestA/one/two"}
{"Action":"run","Package":"a","Test":"TestA/one"}
{"Action":"pass","Package":"a","Test":"TestA/one/two","Elapsed":4}
{"Action":"pass","Package":"a","Test":"TestA/one","Elapsed":9}
{"Action":"pass","Package":"a","Test":"TestA","Elapsed":10}
{"Action":"run","Package":"a","Test":"TestB"}
{"Action":"output","Package":"a","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"a","Test":"TestB","Output":"    b_test.go:1: wrong\n"}
{"Action":"output","Package":"a","Test":"TestB","Output":"--- FAIL: TestB (5.50s)\n"}
{"Action":"fail","Package":"a","Test":"TestB","Elapsed":5.5}
{"Action":"run","Package":"a","Test":"TestC"}
{"Action":"output","Package":"a","Test":"TestC","Output":"panic: c\n"}
# not JSON
{"Action":"output","Package":"a","Output":"FAIL\ta\t6.0s\n"}
{"Action":"fail","Package":"a","Elapsed":6}
`
	var out strings.Builder
	require.NoError(t, run(strings.NewReader(in), &out))
	require.Equal(t, "    b_test.go:1: wrong\n--- FAIL: TestB (5.50s)\n# not JSON\nFAIL\ta\t6.0s\n"+
		"a TestC has not ended:\npanic: c\n"+
		"the slowest of 2 tests, which took 10 s one after the other:\n     5.5 s  TestB\n     4.0 s  TestA/one/two\n", out.String())
}

func TestTableHasAnEnd(t *testing.T) {
	var in, out strings.Builder
	for range 100 {
		in.WriteString(`{"Action":"pass","Package":"a","Test":"TestA","Elapsed":1}` + "\n")
	}
	require.NoError(t, run(strings.NewReader(in.String()), &out))
	require.Equal(t, 1+rows, strings.Count(out.String(), "\n"))
}
