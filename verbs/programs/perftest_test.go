package programs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// perftests are command lines of perftest: every program, with every type of queue pair that
// it has, and with options that change how it posts. By default the first three run, in the
// default mode.
var perftests = []string{
	"ib_write_bw -n 500",
	"ib_read_lat -n 500",
	"ib_send_bw -n 500",
	"ib_write_lat -n 500",
	"ib_read_bw -n 500",
	"ib_send_lat -n 500",
	"ib_atomic_bw -n 500",
	"ib_atomic_lat -n 500",
	"ib_atomic_bw -n 500 -A CMP_AND_SWAP",
	"ib_atomic_lat -n 500 -A FETCH_AND_ADD",
	"ib_write_bw -n 5 -a",
	"ib_send_bw -n 5 -a",

	"ib_read_lat -n 5 -a",
	"ib_write_bw -n 500 -c UC",
	"ib_write_lat -n 500 -c UC",
	"ib_send_bw -n 500 -c UC",
	"ib_send_lat -n 500 -c UC",
	"ib_send_bw -n 500 -c UD -s 1024",
	"ib_send_lat -n 500 -c UD -s 1024",
	"ib_send_bw -n 500 -c UD -s 64 -b",

	"ib_write_bw -n 300 -b",
	"ib_read_bw -n 300 -b",
	"ib_send_bw -n 300 -b",

	"ib_write_bw -n 100 -q 16",
	"ib_read_bw -n 100 -q 16",
	"ib_send_bw -n 100 -q 16",
	"ib_write_bw -n 320 -l 16",
	"ib_send_bw -n 320 -l 16 -r 512",
	"ib_send_bw -n 500 --use-srq",
	"ib_send_bw -n 100 --use-srq -q 4",
	"ib_send_lat -n 500 --use-srq",
	"ib_send_bw -n 500 -e",
	"ib_send_lat -n 500 -e",
	"ib_send_lat -n 500 -e -c UD -s 512",
	"ib_write_lat -n 500 -s 64 -I 64",
	"ib_send_lat -n 500 -s 32 -I 64",
	"ib_write_bw -n 500 -s 16 -I 16",
	"ib_write_bw -n 100 -q 8 --mr_per_qp",
	"ib_write_bw -n 500 -s 1000000 --cq-mod 1",
	"ib_write_bw -n 500 --recv_post_list 4 -l 4",
	"ib_write_bw -n 200 -s 8 --post_list 8 -t 64",

	"ib_send_bw -n 300 -c XRC",
	"ib_send_lat -n 300 -c XRC",
	"ib_send_lat -n 300 -c XRC -e",
	"ib_write_bw -n 300 -c XRC -s 1000000",
	"ib_write_lat -n 300 -c XRC",
	"ib_read_bw -n 300 -c XRC",
	"ib_read_lat -n 300 -c XRC",
	"ib_atomic_bw -n 300 -c XRC",
	"ib_atomic_lat -n 300 -c XRC",
}

func TestPerftest(t *testing.T) {
	t.Parallel()
	list := perftests
	if !*whole {
		list = list[:3]
	}
	for m, mode := range modes {
		if mode.flags != nil && !*whole {
			continue
		}
		// One lab for all lines: each line runs on the engine as the line before has left it.
		l := newLab(t, mode.flags...)
		for i, line := range list {
			if !share.Has(i, m) {
				continue
			}
			t.Run(mode.name+"/"+line, func(t *testing.T) {
				l := &lab{t: t, socket: l.socket, engine: l.engine, flags: l.flags}
				argv := strings.Fields(line)
				need(t, argv[0])
				_, client := l.pair(append(argv, "-d", "nicless0", "-F")...)
				rows := perftestRows(client)
				require.NotEmpty(t, rows, "no results:\n%s", client)
				if strings.Contains(client, "Correlation coefficient") {
					// perftest finds the rate of its clock by a regression over 1 ms. On a busy machine it
					// gives up, and prints no rates (get_clock.c). The bytes have moved all the same.
					t.Logf("perftest has not found the rate of its clock:\n%s", client)
					return
				}
				for _, row := range rows {
					if len(row) == 0 {
						t.Logf("nothing was measured:\n%s", client)
						continue
					}
					require.Positive(t, row[len(row)-1], "results:\n%s", client)
				}
			})
		}
	}
}

var (
	perftestRow  = regexp.MustCompile(`(?m)^ +\d+[ \t]+\d+([ \t]+(-?[0-9.]+|-?nan|-?inf))+[ \t]*$`)
	perftestNone = regexp.MustCompile(`nan|inf`)
)

// perftestRows returns the results of a program of perftest: bytes, iterations, and what the
// program measured. On a loaded machine perftest can have too few samples, or a duration of 0.
// Then it divides by 0 and prints nan or inf, and perftestRows returns an empty row.
func perftestRows(said string) (rows [][]float64) {
	for _, line := range perftestRow.FindAllString(said, -1) {
		var row []float64
		if !perftestNone.MatchString(line) {
			for _, f := range strings.Fields(line) {
				v, _ := strconv.ParseFloat(f, 64)
				row = append(row, v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// measured returns the rows that are not empty.
func measured(rows [][]float64) (list [][]float64) {
	for _, row := range rows {
		if len(row) > 0 {
			list = append(list, row)
		}
	}
	return list
}

func TestPerftestRows(t *testing.T) {
	rows := perftestRows(" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n" +
		" 65536      500              -nan               -nan                 0.000000\n" +
		" 65536      500              4012.33            3998.21              0.063971\n" +
		" 8       500          3.51           inf      3.60     \t   3.65           0.10\n")
	require.Equal(t, [][]float64{nil, {65536, 500, 4012.33, 3998.21, 0.063971}, nil}, rows)
	require.Len(t, measured(rows), 1)
}
