package programs

import "testing"

// Programs run under valgrind with the vendor's library, and valgrind finds no error in it or in ours.
// helgrind and drd watch a program of one thread, because they report races within rping and
// librdmacm, which use flags without a lock.
func TestValgrind(t *testing.T) {
	t.Parallel()
	none := []string{`ERROR SUMMARY: 0 errors from 0 contexts`}
	tool := func(name string) string { return "valgrind --error-exitcode=9 --tool=" + name + " " }
	pingpong := "ibv_rc_pingpong -g 0 -p PORT -n 20"
	rows := []row{
		{ // memcheck finds 32 bytes that perftest writes to its peer and has not set
			server: "valgrind ib_write_bw -p PORT -s 65536 -n 20 -F", ready: listensTCP,
			client: "valgrind ib_write_bw -p PORT -s 65536 -n 20 -F ADDR", says: []string{`65536 +20 +\d`},
		},
		{
			server: tool("memcheck") + "rping -s -a 0.0.0.0 -p PORT -C 3", ready: listensCM,
			client: tool("memcheck") + "rping -c -a ADDR -p PORT -C 3", says: none, hears: none,
		},
	}
	for _, name := range []string{"memcheck", "helgrind", "drd"} {
		rows = append(rows, row{
			server: tool(name) + pingpong, ready: listensTCP, client: tool(name) + pingpong + " ADDR",
			says: none, hears: none, quick: name == "memcheck",
		})
	}
	for i := range rows {
		rows[i].more = !rows[i].quick
	}
	matrix(t, rows)
}
