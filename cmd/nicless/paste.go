package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/paste"
	"github.com/nicless/nicless/field/report"
	"github.com/nicless/nicless/trace"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const pasteHint = "pass a dump or a log as a file or on standard input, or bytes with their kind: nicless decode KIND HEX"

// decodeText decodes what is in files, in the arguments, or on standard input.
func decodeText(c *cobra.Command, args []string, o report.Options) error {
	switch {
	case len(args) == 0:
		stdin := c.InOrStdin()
		if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return usagef(kindHint()+"; or a file, a text, or \"-\" to type one", "decode: the kind of bytes is missing")
		}
		return decodeStream(c.OutOrStdout(), stdin, "standard input", o)
	case len(args) == 1 && args[0] == "-":
		return decodeStream(c.OutOrStdout(), c.InOrStdin(), "standard input", o)
	case isDirectory(args[0]):
		return usagef(pasteHint, "decode: %s is a directory", known.Quote(args[0]))
	case isFile(args[0]):
		return decodeFiles(c.OutOrStdout(), args, o)
	case strings.ContainsAny(args[0], "/\\") && !strings.ContainsAny(args[0], " \n"):
		return usagef(pasteHint, "decode: file %s does not exist", known.Quote(args[0]))
	case bareWord.MatchString(args[0]) && strings.IndexFunc(args[0], notHex) >= 0:
		_, err := findKind(args[0])
		return err
	}
	return decodeStream(c.OutOrStdout(), strings.NewReader(strings.Join(args, " ")), "the arguments", o)
}

// bareWord is a word that could be meant as a kind.
var bareWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_\[\]-]*$`)

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func decodeFiles(w io.Writer, names []string, o report.Options) error {
	var all error
	for _, name := range names {
		if len(names) > 1 && !o.JSON {
			fmt.Fprintf(w, "%s:\n", plain(name))
		}
		f, err := os.Open(name)
		if err == nil {
			err = decodeStream(w, f, plain(name), o)
			_ = f.Close()
		}
		if err != nil && all == nil {
			all = err
		} else if err != nil {
			all = errors.Join(all, err)
		}
	}
	return all
}

// decodeStream decodes one text. It is an error if nothing is in it.
func decodeStream(w io.Writer, r io.Reader, name string, o report.Options) error {
	in := bufio.NewReaderSize(r, 4096)
	head, _ := in.Peek(512)
	if err := notText(head, name); err != nil {
		return err
	}
	s, err := report.Decode(w, in, o)
	switch {
	case err != nil:
		return fmt.Errorf("decode: %s: %w", name, err)
	case s.Items > 0:
		return nil
	case s.Lines == 0:
		return hintf(pasteHint, "decode: %s is empty", name)
	}
	text := fmt.Sprintf("decode: %s: no CQE, WQE, packet or error of a completion in %d lines", name, s.Lines)
	hint := pasteHint
	for _, it := range s.Unclear {
		text += "\n  " + unclear(&it)
		hint = "nicless decode KIND - decodes bytes as they are, whatever they hold"
	}
	for _, it := range s.Unclear {
		if c := commandOf(it.Bytes); c != nil && len(it.Bytes) >= devx.HeadSize {
			hint = "they begin as " + c.Name + ", a firmware command, does: nicless decode devx-in < FILE"
			break
		}
	}
	if s.Lines == 1 && len(head) < 200 {
		if _, err := known.Find(string(head)); err == nil {
			hint = "nicless explain prints what is known about these words"
		}
	}
	if isOctal(string(head)) {
		hint = octalHint
	}
	return hintf(hint, "%s", text)
}

func unclear(it *paste.Item) string {
	return fmt.Sprintf("lines %d to %d: %s", it.Line, it.Last, strings.Join(it.Notes, "; "))
}

// magics goes from the first bytes of files to what turns them into text.
var magics = []struct{ begin, what, hint string }{
	{"\xd4\xc3\xb2\xa1", "a capture of packets (pcap)", "tcpdump -x -r FILE | nicless decode"},
	{"\xa1\xb2\xc3\xd4", "a capture of packets (pcap)", "tcpdump -x -r FILE | nicless decode"},
	{"\x4d\x3c\xb2\xa1", "a capture of packets (pcap)", "tcpdump -x -r FILE | nicless decode"},
	{"\x0a\x0d\x0d\x0a", "a capture of packets (pcapng)", "tcpdump -x -r FILE | nicless decode"},
	{"\x1f\x8b", "compressed (gzip)", "zcat FILE | nicless decode"},
	{"\x28\xb5\x2f\xfd", "compressed (zstd)", "zstdcat FILE | nicless decode"},
	{"\xfd7zXZ\x00", "compressed (xz)", "xzcat FILE | nicless decode"},
	{trace.Magic, "a trace of a device", "nicless trace show FILE"},
	{"\x7fELF", "a program (ELF)", "pass the text that it prints"},
}

// notText returns an error that says what to do with a stream that is not text.
func notText(head []byte, name string) error {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.begin)) {
			return hintf(m.hint, "decode: %s is %s, not text", name, m.what)
		}
	}
	wide := bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
	if bytes.IndexByte(head, 0) >= 0 && !wide {
		return hintf("if these are the bytes of objects: xxd FILE | nicless decode", "decode: %s is binary data, not text", name)
	}
	return nil
}
