package programs

import "testing"

// ibstat and ibstatus, a shell script, describe the port.
func TestPortTools(t *testing.T) {
	t.Parallel()
	matrix(t, []row{
		{client: "ibstat", says: []string{"CA 'nicless0'", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"}},
		{client: "ibstatus", says: []string{"Infiniband device 'nicless0' port 1 status:", `state:\s+4: ACTIVE`, `phys state:\s+5: LinkUp`, `link_layer:\s+Ethernet`}},
		{client: "ibv_devinfo -v", says: []string{"hca_id:\tnicless0", "PORT_ACTIVE"}},
	})
}

// ibv_xsrq_pingpong receives messages of several clients in one shared receive queue.
func TestXSRQPlaces(t *testing.T) {
	t.Parallel()
	line := "ibv_xsrq_pingpong -d nicless0 -g 0 -p PORT"
	says := []string{"success"}
	matrix(t, []row{
		{server: line, ready: listensTCP, client: line + " ADDR", says: says},
		{server: line + " -e", ready: listensTCP, client: line + " -e ADDR", says: says},
	})
}

// fio transfers blocks from one process to another by its engine rdma. The side with --rw=write
// connects and moves the blocks by the verb that it names; the side with --rw=read listens. It
// posts as many receives as there are blocks: fio connects with an RNR retry count of 0, so that a
// send without a receive fails, and then waits for ever.
func TestFio(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, verb := range []string{"write", "read", "send"} {
		// Processes of fio would leave the group that is killed if a test fails.
		common := "--port=PORT --bs=64k --size=4m --thread"
		r := row{
			server: "fio --name=target --ioengine=rdma --rw=read --iodepth=64 " + common,
			ready:  listensCM,
			client: "fio --name=initiator --ioengine=rdma --hostname=ADDR --rw=write --iodepth=4 --verb=" + verb + " " + common,
			says:   []string{`write: IOPS=.*BW=`, `issued rwts: total=0,64,0,0 short=0,0,0,0 dropped=0,0,0,0`},
			hears:  []string{`target: .* err= 0:`},
		}
		if verb == "send" {
			r.hears = append(r.hears, `issued rwts: total=\d+,0,0,0 short=0,0,0,0 dropped=0,0,0,0`)
		}
		rows = append(rows, r)
	}
	matrix(t, rows)
}
