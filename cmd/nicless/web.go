//go:build linux && (amd64 || arm64)

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/nicless/nicless/cmd/nicless/internal/web"
	"github.com/spf13/cobra"
)

const webUsage = `Shows an engine in a browser: load, rates, clients, queues with their rings and
latencies, links, errors, a trace of a queue to scrub through, and a decoder for
pasted text. The page is in this command, and asks no other server.

It is for this host only, unless --addr names another address. Such an address
needs a token, which is in the URL that is printed; so does --control. On a host
with other users --token gives the page one, too: they could see what you may
see.

Usage:
  nicless web [--socket PATH] [flags]

Flags:
  --addr ADDRESS  where to listen, HOST:PORT; port 0 is any free one, and
                  HOST is 127.0.0.1 if it is left out (default: 127.0.0.1:0)
  --control       let the page switch rules of faults on and off
  --socket PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)
  --token FILE    file with the token, at least 16 characters; "generated" makes
                  one

Example:
  nicless web
  nicless web --addr 0.0.0.0:8080 --token generated
`

// generated, in place of the name of a file, asks for a new token.
const generated = "generated"

// leastToken is the least length of a token, in characters.
const leastToken = 16

func newWeb() *cobra.Command {
	var socket, addr, token string
	var control bool
	c := &cobra.Command{
		Use:   "web",
		Short: "show an engine in a browser",
		Long:  webUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if token == "" && c.Flags().Changed("token") {
				return &hinted{err: errors.New("web: --token: the name of the file is empty"),
					hint: "without --token there is no token for this host, and one is made for others", usage: true}
			}
			if socket == "" {
				if socket, err = defaultSocket(); err != nil {
					return err
				}
			}
			l, err := listenForWeb(addr)
			if err != nil {
				return err
			}
			if token == "" && (control || !web.Local(l.Addr())) {
				token = generated
			}
			text, err := readToken(token)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			url := fmt.Sprintf("http://%s/", reachable(l.Addr().(*net.TCPAddr)))
			if text != "" {
				url += "?token=" + text
			}
			fmt.Fprintln(c.OutOrStdout(), url)
			say := func(text string) { fmt.Fprintf(c.ErrOrStderr(), "nicless: web: %s\n", text) }
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return web.New(web.Options{Socket: socket, Token: text, Control: control, Log: say}).Serve(ctx, l)
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the engine")
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "where to listen")
	c.Flags().StringVar(&token, "token", "", "file with the token")
	c.Flags().BoolVar(&control, "control", false, "let the page switch rules of faults on and off")
	_ = c.MarkFlagFilename("socket")
	_ = c.MarkFlagFilename("token")
	return c
}

// reachable returns an address by which a listener can be reached. If it is at all addresses, that is the
// first one of this host that others can use.
func reachable(a *net.TCPAddr) *net.TCPAddr {
	if !a.IP.IsUnspecified() {
		return a
	}
	at := *a
	at.IP = net.IPv4(127, 0, 0, 1)
	list, _ := net.InterfaceAddrs()
	for _, x := range list {
		if n, ok := x.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			at.IP = n.IP
			break
		}
	}
	return &at
}

// listenForWeb listens at an address, host:port. Without a host it is the loopback address, as for --metrics:
// others see the page only if an address of this host, or 0.0.0.0, is named.
func listenForWeb(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if _, notNumber := strconv.ParseUint(port, 10, 16); err != nil || notNumber != nil {
		return nil, &hinted{err: fmt.Errorf("web: --addr %s: no address: host and port are needed, such as "+
			"127.0.0.1:8080", plain(addr)), hint: "the port is a number from 0 to 65535; 0 is any free one", usage: true}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		hint := "name an address of this host: ip address lists them; 127.0.0.1 is for this host only"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = fmt.Sprintf("ss -ltnp 'sport = :%s' shows who has the port; port 0 is any free one", port)
		}
		return nil, hintf(hint, "web: --addr %s: %w", plain(addr), err)
	}
	return l, nil
}

// readToken returns the token of a file, a new one, or none.
func readToken(file string) (string, error) {
	switch file {
	case "":
		return "", nil
	case generated:
		return rand.Text(), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("web: --token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	if len(t) < leastToken || strings.Trim(t, allowed) != "" {
		return "", hintf("head -c 18 /dev/urandom | base64 | tr +/ -_ > FILE makes one",
			"web: --token %s: a token has at least %d letters, digits, and any of - _ .", plain(file), leastToken)
	}
	return t, nil
}
