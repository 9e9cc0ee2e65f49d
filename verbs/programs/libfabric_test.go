package programs

import "testing"

// libfabricRows run fi_pingpong, which checks its data (-c), over the provider verbs and over
// the providers that are layered on it.
var libfabricRows = []row{
	fabricRow("verbs", "msg", ""),
	fabricRow("verbs;ofi_rxm", "rdm", ""),
	fabricRow("verbs;ofi_rxm", "rdm", "-m tagged "),
	fabricRow("verbs;ofi_rxd", "rdm", ""),
}

func fabricRow(provider, endpoint, more string) row {
	line := "fi_pingpong -p " + provider + " -e " + endpoint + " -I 5 -c " + more
	return row{server: line + "-B PORT", ready: listensTCP, client: line + "-P PORT ADDR",
		says: []string{`(?m)^64 .*\n256 .*\n1k .*\n4k .*\n64k .*\n1m .*$`}}
}

func TestLibfabric(t *testing.T) {
	t.Parallel()
	matrix(t, libfabricRows)
}

// fi_info finds the device with connections and with datagrams.
func TestLibfabricInfo(t *testing.T) {
	t.Parallel()
	matrix(t, []row{{client: "fi_info -p verbs", says: []string{"domain: nicless0\n", "type: FI_EP_MSG", "type: FI_EP_DGRAM"}}})
}
