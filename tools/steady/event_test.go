//go:build linux

package steady

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Test":"TestA/b"}
{"Action":"output","Test":"TestA/b","Output":"said b\n"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestC"}
{"Action":"pass","Test":"TestC"}
no JSON
`

func TestTheInnermostTestFails(t *testing.T) {
	failed, _, err := parse(strings.NewReader(events+`{"Action":"fail"}`), "exit status 1")
	require.NoError(t, err)
	require.Equal(t, []verdict{{"TestA/b", "said b\n"}}, failed)
}

func TestProcessEndsInTheMiddle(t *testing.T) {
	failed, _, err := parse(strings.NewReader(events+`{"Action":"run","Test":"TestD"}`), "signal: killed")
	require.NoError(t, err)
	require.Len(t, failed, 2)
	require.Equal(t, "TestD", failed[1].test)
	require.Contains(t, failed[1].output, "while this test ran: signal: killed")
}

func TestFailureOutsideTests(t *testing.T) {
	failed, _, err := parse(strings.NewReader(`{"Action":"output","Output":"cannot build\n"}`), "exit status 2")
	require.NoError(t, err)
	require.Equal(t, []verdict{{"", "cannot build\n\nexit status 2\n"}}, failed)
	failed, _, err = parse(strings.NewReader(""), "signal: killed")
	require.NoError(t, err)
	require.Equal(t, []verdict{{"", "\nsignal: killed\n"}}, failed)
}

// A status of 0 does not prove that all went well.
func TestStatusZeroInTheMiddle(t *testing.T) {
	failed, _, err := parse(strings.NewReader(`{"Action":"run","Test":"TestA"}`), "")
	require.NoError(t, err)
	require.Equal(t, []verdict{{"TestA", "\nthe process ended while this test ran: status 0\n"}}, failed)
	failed, _, err = parse(strings.NewReader(events), "")
	require.NoError(t, err)
	require.Equal(t, []verdict{{"TestA/b", "said b\n"}}, failed)
}

func TestNothingFails(t *testing.T) {
	failed, n, err := parse(strings.NewReader(`{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/b"}
{"Action":"skip","Test":"TestA/b"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`), "")
	require.NoError(t, err)
	require.Empty(t, failed)
	require.Equal(t, tally{ran: 1, skipped: 1}, n)
	_, n, err = parse(strings.NewReader(`{"Action":"skip"}`), "") // a package without tests
	require.NoError(t, err)
	require.Zero(t, n)
}
