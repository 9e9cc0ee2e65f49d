package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A dump with offsets has the same bytes as one without.
func TestDumpsWithOffsets(t *testing.T) {
	b := make([]byte, 72)
	for i := range b {
		b[i] = byte(7 * i)
	}
	for _, command := range []string{"xxd", "xxd -g 4", "xxd -g 1 -c 8", "hexdump -C"} {
		words := strings.Fields(command)
		x := exec.Command(words[0], words[1:]...)
		x.Stdin = strings.NewReader(string(b))
		out, err := x.Output()
		if err != nil {
			out = []byte(recorded[command]) // the program is not installed
		}
		got, err := parseHex(string(out))
		require.NoError(t, err, command)
		require.Equal(t, b, got, command)
		got, err = parseHex(recorded[command])
		require.NoError(t, err, command)
		require.Equal(t, b, got, command)
	}
}

// recorded has what the programs print of 72 bytes that grow by 7.
var recorded = map[string]string{
	"xxd":           "00000000: 0007 0e15 1c23 2a31 383f 464d 545b 6269  .....#*18?FMT[bi\n00000010: 7077 7e85 8c93 9aa1 a8af b6bd c4cb d2d9  pw~.............\n00000020: e0e7 eef5 fc03 0a11 181f 262d 343b 4249  ..........&-4;BI\n00000030: 5057 5e65 6c73 7a81 888f 969d a4ab b2b9  PW^elsz.........\n00000040: c0c7 ced5 dce3 eaf1                      ........\n",
	"xxd -g 4":      "00000000: 00070e15 1c232a31 383f464d 545b6269  .....#*18?FMT[bi\n00000010: 70777e85 8c939aa1 a8afb6bd c4cbd2d9  pw~.............\n00000020: e0e7eef5 fc030a11 181f262d 343b4249  ..........&-4;BI\n00000030: 50575e65 6c737a81 888f969d a4abb2b9  PW^elsz.........\n00000040: c0c7ced5 dce3eaf1                    ........\n",
	"xxd -g 1 -c 8": "00000000: 00 07 0e 15 1c 23 2a 31  .....#*1\n00000008: 38 3f 46 4d 54 5b 62 69  8?FMT[bi\n00000010: 70 77 7e 85 8c 93 9a a1  pw~.....\n00000018: a8 af b6 bd c4 cb d2 d9  ........\n00000020: e0 e7 ee f5 fc 03 0a 11  ........\n00000028: 18 1f 26 2d 34 3b 42 49  ..&-4;BI\n00000030: 50 57 5e 65 6c 73 7a 81  PW^elsz.\n00000038: 88 8f 96 9d a4 ab b2 b9  ........\n00000040: c0 c7 ce d5 dc e3 ea f1  ........\n",
	"hexdump -C":    "00000000  00 07 0e 15 1c 23 2a 31  38 3f 46 4d 54 5b 62 69  |.....#*18?FMT[bi|\n00000010  70 77 7e 85 8c 93 9a a1  a8 af b6 bd c4 cb d2 d9  |pw~.............|\n00000020  e0 e7 ee f5 fc 03 0a 11  18 1f 26 2d 34 3b 42 49  |..........&-4;BI|\n00000030  50 57 5e 65 6c 73 7a 81  88 8f 96 9d a4 ab b2 b9  |PW^elsz.........|\n00000040  c0 c7 ce d5 dc e3 ea f1                           |........|\n00000048\n",
}

// Digits that only look like offsets are bytes.
func TestDigitsThatAreNoOffsets(t *testing.T) {
	for text, want := range map[string]int{
		"00000508: 00010203": 8, "0000000300000007": 8, "00:00:05:08": 4, "00000000 00000001": 8,
		"00000000: 01020304\n00000008: 05060708": 16, // the second row does not begin where the first ends
	} {
		b, err := parseHex(text)
		require.NoError(t, err, text)
		require.Len(t, b, want, text)
	}
}

// od prints octal digits, which are no bytes; the error says how to print hexadecimal ones.
func TestOctalDigits(t *testing.T) {
	for _, text := range []string{"0000000 003022 074640\n0000004\n", "0000000 022 006 240 171\r\n0000004\r\n"} {
		for _, args := range [][]string{{"decode"}, {"decode", "cqe"}} {
			var out, errs strings.Builder
			require.Equal(t, 1, run(args, strings.NewReader(text), &out, &errs))
			require.Contains(t, errs.String(), "hint: these digits are octal, as od prints them: od -t x1 FILE | nicless decode")
		}
	}
	require.False(t, isOctal("0000000 0730 8840\n"))
}

// The command of the hint about octal digits leads to the CQE, although od prints "*" for most of its rows.
func TestOctalHint(t *testing.T) {
	od, err := exec.LookPath("od")
	if err != nil {
		t.Skip("od is not installed")
	}
	file := filepath.Join(t.TempDir(), "cqe.bin")
	b := append(make([]byte, 48), 0, 0, 0, 0, 0xb1, 0, 0x88, 0x13, 8, 0, 0x12, 0x34, 0, 7, 0x3c, 0xd2)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	octal, err := exec.Command(od, file).Output()
	require.NoError(t, err)
	var out, errs strings.Builder
	require.Equal(t, 1, run([]string{"decode"}, strings.NewReader(string(octal)), &out, &errs))
	_, hint, ok := strings.Cut(errs.String(), "as od prints them: ")
	require.True(t, ok, errs.String())
	command, _, ok := strings.Cut(hint, " | nicless decode")
	require.True(t, ok, hint)
	words := strings.Fields(strings.ReplaceAll(command, "FILE", file))
	require.Equal(t, "od", words[0])
	text, err := exec.Command(od, words[1:]...).Output()
	require.NoError(t, err)
	require.Contains(t, string(text), "\n*\n")
	out.Reset()
	require.Zero(t, run([]string{"decode"}, strings.NewReader(string(text)), &out, &errs), errs.String())
	require.Contains(t, out.String(), "CQE, queue 0x001234, WQE 7")
}
