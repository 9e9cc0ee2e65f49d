//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/await"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// puts is a program of its own, which scripts run: it posts WRITEs, each on new queue pairs, and prints how
// each has ended. Its arguments are the socket of an engine, or "" for that of nicless run, and for each
// WRITE "right" or "wrong", which names a key that does not exist.
func puts() {
	socket := os.Args[1]
	if socket == "" {
		socket = strings.TrimSuffix(os.Getenv("NICLESS_VERBS"), nicless.VerbsSuffix)
	}
	if err := put(os.Stdout, socket, os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func put(w io.Writer, socket string, all []string) error {
	c, err := nicless.Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	pd, err := c.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	if err != nil {
		return err
	}
	cq, err := c.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return err
	}
	for i, how := range all {
		a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		if err != nil {
			return err
		}
		b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		if err != nil {
			return err
		}
		if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
			return err
		}
		key := mr.RKey()
		if how == "wrong" {
			key ^= 0xff00
		}
		if err := a.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
			SGE: []nicless.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 2048, RKey: key}); err != nil {
			return err
		}
		var out [1]nicless.Completion
		if _, err := cq.Wait(context.Background(), out[:]); err != nil {
			return err
		}
		fmt.Fprintf(w, "put %d: %v\n", i+1, out[0].Status)
	}
	return nil
}

// faulted waits until WRITEs at a socket, or the requests before them, fail: faulted SOCKET.
func faulted(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	await.Until(waits{ts: ts}, "rules of faults are set at "+path, func() bool {
		var out strings.Builder
		err := put(&out, path, []string{"right"})
		return err != nil || !strings.Contains(out.String(), "SUCCESS")
	})
}

// The action at the root of the tree is YAML, and the commands of nicless that it runs exist, with their
// flags.
func TestActionRunsCommandsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../action.yml")
	require.NoError(t, err)
	var action struct {
		Name, Description string
		Inputs            map[string]struct {
			Description string
			Required    bool
			Default     string
		}
		Runs struct {
			Using string
			Steps []struct {
				ID, If, Name, Uses, Run, Shell string
				With, Env                      map[string]string
			}
		}
	}
	require.NoError(t, yaml.UnmarshalWithOptions(b, &action, yaml.DisallowUnknownField()))
	require.Equal(t, "composite", action.Runs.Using)
	used := map[string]bool{}
	commands := 0
	for _, s := range action.Runs.Steps {
		require.True(t, (s.Uses == "") != (s.Run == ""), s.Name)
		require.True(t, s.Run == "" || s.Shell == "bash", s.Name)
		require.NotContains(t, s.Run, "${{", "%s: an input in a script is code of whoever has written it", s.Name)
		for _, m := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(fmt.Sprint(s), -1) {
			require.Contains(t, action.Inputs, m[1])
			used[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`(?m)^\s*nicless ([a-z]+)(.*)$`).FindAllStringSubmatch(s.Run, -1) {
			commands++
			var out, errs strings.Builder
			require.Zero(t, run([]string{m[1], "--help"}, strings.NewReader(""), &out, &errs), m[0])
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(s.Run, -1) {
				if m[1] == "run" {
					require.Contains(t, out.String(), "  "+flag, m[0])
				}
			}
		}
	}
	require.Equal(t, 2, commands)
	for name, in := range action.Inputs {
		require.True(t, used[name], name)
		require.NotEmpty(t, in.Description, name)
	}
}

// An engine may obey rules of several commands; each tells what its own do.
func TestFaultsOfOthers(t *testing.T) {
	rules := &fault.Rules{Rules: []fault.Rule{
		{Name: "mine", RNR: 1},
		{Complete: &fault.Complete{Syndrome: fault.Syndrome(cqe.RemoteAccess)}},
	}}
	for words, mine := range map[string]bool{
		`injected by rule "mine" (` + rules.Rules[0].Action() + `)`:                       true,
		`injected by rule 2 (completes with remote-access)`:                               true,
		`the cut by rule "mine" (` + rules.Rules[0].Action() + `) is over; it has lost 3`: true,
		`injected by rule 1 (completes with remote-access)`:                               false,
		`injected by rule 2 (completes with remote-operation)`:                            false,
		`injected by rule "other" (` + rules.Rules[0].Action() + `): a request of client`: false,
	} {
		require.Equal(t, mine, isOf(rules, "fault-injected", words), words)
	}
	require.True(t, isOf(rules, "port-down", "the port is down"))
}
