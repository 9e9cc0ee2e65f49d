package programs

import (
	"fmt"
	"testing"
)

// ibstat and ibstatus, a shell script, describe the port.
func TestPortTools(t *testing.T) {
	matrix(t, []row{
		{client: "ibstat", says: []string{"CA 'nicless0'", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"}},
		{client: "ibstatus", says: []string{"Infiniband device 'nicless0' port 1 status:", `state:\s+4: ACTIVE`, `phys state:\s+5: LinkUp`, `link_layer:\s+Ethernet`}},
		{client: "ibv_devinfo -v", says: []string{"hca_id:\tnicless0", "PORT_ACTIVE"}},
	})
}

// ibv_xsrq_pingpong receives what several clients send in one shared receive queue.
func TestXSRQPlaces(t *testing.T) {
	line := "ibv_xsrq_pingpong -d nicless0 -g 0 -p PORT"
	says := []string{"success"}
	matrix(t, []row{
		{server: line, ready: listensTCP, client: line + " ADDR", says: says},
		{server: line + " -e", ready: listensTCP, client: line + " -e ADDR", says: says},
	})
}

// fio transfers blocks from one process to another by its engine rdma.
func TestFio(t *testing.T) {
	var rows []row
	for _, verb := range []string{"write", "read", "send"} {
		common := "--port=PORT --bs=64k --size=4m --iodepth=4 --thread" // processes of fio would leave the group that is killed if a test fails
		direction := "write"
		if verb == "read" {
			direction = "read"
		}
		rows = append(rows, row{
			server: "fio --name=target --ioengine=rdma --rw=read " + common,
			ready:  listensCM,
			client: fmt.Sprintf("fio --name=initiator --ioengine=rdma --hostname=ADDR --verb=%s --rw=%s %s", verb, direction, common),
			says:   []string{fmt.Sprintf(`(?i)%s: IOPS=.*BW=`, direction), `issued rwts: total=(0,64|64,0),`},
		})
	}
	matrix(t, rows)
}
