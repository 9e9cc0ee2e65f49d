package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/nicless/nicless"

// mayImport is the architecture: it says which packages of this module a package may
// import. A folder without a row fails TestLayering. Packages import only lower packages,
// never higher ones.
var mayImport = map[string][]string{
	// Formats: bytes only, no memory, no threads.
	"field":    {},
	"wqe":      {"field"},
	"cqe":      {"field"},
	"doorbell": {"field"},
	"packet":   {"field", "internal/crc"},

	// Knowledge about errors, and texts that people paste: above the formats, below everything else.
	"field/devx":   {"field"},
	"field/known":  {"field/devx", "cqe", "wqe"},
	"field/paste":  {"field", "field/known", "cqe", "doorbell", "packet", "wqe"},
	"field/report": {"field", "field/known", "field/paste", "internal/paragraph", "cqe", "wqe"},

	// Rules of faults: a device obeys them, files and programs write them.
	"fault":          {"cqe", "wqe", "internal/nearest"},
	"fault/rulefile": {"fault", "internal/nearest"},

	// Packages that host and device share.
	"internal/nearest":    {},
	"internal/paragraph":  {},
	"internal/platform":   {},
	"internal/clock":      {},
	"internal/cpu":        {},
	"internal/crc":        {},
	"internal/blocking":   {},
	"internal/schedstat":  {},
	"internal/verdict":    {"internal/schedstat"},
	"internal/procmem":    {},
	"internal/shm":        {"internal/blocking", "internal/cpu", "internal/platform"},
	"internal/mapholder":  {},
	"internal/guardpages": {},
	"internal/unixsock":   {},
	"internal/ring":       {},
	"internal/packetring": {"internal/shm"},
	"internal/budget":     {},
	"internal/mmsg":       {},
	"internal/tun":        {"internal/platform"},
	"internal/control":    {"internal/shm"},
	"internal/board":      {"internal/control"},
	"internal/rendezvous": {"internal/control"},
	"internal/reason":     {"internal/control", "internal/shm"},

	// Accesses to cache lines, and which ones the engine makes. Package model imports nothing of this module.
	"model":         {},
	"model/rack":    {},
	"model/traffic": {"model", "wqe", "cqe", "doorbell"},

	// The stream of events of a device: the device writes it, watchers read it.
	"trace":         {"internal/shm"},
	"trace/objects": {"trace", "wqe", "cqe"},

	// The state of a device's objects, for those who look at it.
	"state": {},

	// The form in which engines of a fabric say to each other what they do.
	"internal/summary": {"internal/control", "state"},

	// Forms of a trace that people and programs look at.
	"trace/text":     {"trace", "trace/objects", "wqe", "cqe", "packet"},
	"trace/jsonl":    {"trace", "trace/objects", "trace/text", "wqe", "cqe", "packet", "field"},
	"trace/lines":    {"trace", "trace/objects", "wqe", "cqe", "model"},
	"trace/perfetto": {"trace", "trace/objects", "trace/text", "wqe", "cqe", "packet"},
	"trace/replay":   {"trace", "engine", "doorbell", "fault", "wqe", "cqe", "field", "internal/control", "internal/nic", "internal/shm"},
	"trace/record":   {"trace", "field/devx", "wqe", "cqe"},
	"trace/roce":     {"trace", "trace/objects", "trace/text", "wqe", "cqe", "packet"},
	// Mistakes in a stream of events.
	"sanitize": {"trace", "trace/objects", "trace/text", "wqe", "cqe"},

	// The one path by which work is posted and completions are polled.
	"hostpath": {"wqe", "cqe", "doorbell", "internal/shm", "internal/cpu", "internal/reason", "internal/ring"},

	// The device as its servers see it: interfaces that package engine implements.
	"internal/nic": {"internal/board", "internal/shm", "internal/control", "internal/packetring"},

	// Leaves of the device: parts that do not use the rest of the device. Each can be
	// understood and tested alone.
	"engine/internal/announce":    {"doorbell", "wqe", "internal/shm"},
	"engine/internal/cgroup":      {},
	"engine/internal/closers":     {},
	"engine/internal/codes":       {"internal/clock"},
	"engine/internal/copying":     {"internal/cpu", "internal/clock", "internal/shm"},
	"engine/internal/cores":       {"internal/clock"},
	"engine/internal/inject":      {"engine/internal/order", "fault", "internal/clock", "internal/control", "wqe"},
	"engine/internal/journal":     {},
	"engine/internal/mailbox":     {"internal/clock", "internal/control", "internal/cpu"},
	"engine/internal/numbers":     {},
	"engine/internal/order":       {"fault"},
	"engine/internal/eventsocket": {"internal/clock", "internal/control"},
	"engine/internal/outage":      {},
	"engine/internal/plan":        {},
	"engine/internal/pagefault":   {},
	"engine/internal/process":     {"engine/internal/quota", "internal/control", "internal/nic", "internal/procmem"},
	"engine/internal/states":      {"internal/control", "wqe"},
	"engine/internal/quota":       {"engine/internal/cgroup", "internal/control"},
	"engine/internal/boxes":       {"internal/board", "internal/control", "internal/nic", "internal/rendezvous"},
	"engine/internal/bulletin":    {"engine/internal/userns", "internal/board", "internal/control"},
	"engine/internal/recent":      {"state"},
	"engine/internal/rights":      {"internal/control"},
	"engine/internal/congestion":  {"internal/clock"},
	"engine/internal/recovery":    {"engine/internal/congestion", "internal/clock", "internal/nic", "internal/packetring", "packet"},
	"engine/internal/scan":        {"internal/clock"},
	"engine/internal/sealer":      {"internal/shm", "internal/unixsock"},
	"engine/internal/sleep":       {"internal/blocking"},
	"engine/internal/tap":         {"trace", "internal/shm"},
	"engine/internal/ticketlock":  {"internal/cpu"},
	"engine/internal/umr":         {"wqe", "engine/internal/object", "engine/internal/process", "internal/control"},
	"engine/internal/atomics":     {"internal/shm", "wqe"},
	"engine/internal/usage":       {"internal/clock"},
	"engine/internal/userns":      {},
	"engine/internal/wheel":       {"internal/clock"},
	"engine/internal/worker":      {"engine/internal/copying", "engine/internal/cores", "engine/internal/pagefault", "engine/internal/sleep", "internal/clock", "internal/cpu"},

	// The device. It must never import hostpath. Its layers, from the lowest to the highest: the state, what
	// goes wrong, completions, execution within the device, transport over links, threads, requests.
	"engine/internal/object": {
		"engine/internal/announce", "engine/internal/boxes", "engine/internal/bulletin", "engine/internal/pagefault", "engine/internal/closers", "engine/internal/eventsocket", "engine/internal/inject", "engine/internal/codes", "engine/internal/copying", "engine/internal/journal", "engine/internal/mailbox", "engine/internal/numbers", "engine/internal/process", "engine/internal/quota", "engine/internal/recent", "engine/internal/recovery", "engine/internal/rights", "engine/internal/scan", "engine/internal/sealer", "engine/internal/sleep", "engine/internal/ticketlock", "engine/internal/usage", "engine/internal/wheel", "engine/internal/tap", "engine/internal/outage",
		"cqe", "doorbell", "packet", "wqe", "internal/clock", "internal/control", "internal/mapholder", "internal/nic", "internal/packetring", "internal/procmem", "internal/reason", "internal/shm", "internal/unixsock",
	},
	"engine/internal/custody": {
		"engine/internal/execution", "engine/internal/inject", "engine/internal/object", "engine/internal/pagefault",
		"trace", "wqe", "internal/clock", "internal/control", "internal/shm",
	},
	"engine/internal/report": {
		"engine/internal/announce", "engine/internal/object",
		"engine/internal/codes", "engine/internal/journal", "engine/internal/outage", "engine/internal/recent", "engine/internal/rights", "engine/internal/sleep", "engine/internal/states", "engine/internal/usage",
		"cqe", "doorbell", "wqe", "internal/blocking", "internal/clock", "internal/control", "internal/nic", "internal/reason", "internal/shm", "trace",
	},
	"engine/internal/traffic": {"engine/internal/object", "cqe", "wqe", "internal/control", "internal/nic"},
	"engine/internal/completion": {
		"engine/internal/traffic",
		"engine/internal/pagefault", "engine/internal/report", "engine/internal/object",
		"engine/internal/codes", "engine/internal/eventsocket",
		"cqe", "internal/clock", "internal/control", "internal/shm", "trace",
	},
	"engine/internal/execution": {
		"engine/internal/traffic", "engine/internal/pagefault", "engine/internal/worker", "engine/internal/completion", "engine/internal/report", "engine/internal/object",
		"engine/internal/inject", "engine/internal/order", "engine/internal/codes", "engine/internal/copying", "engine/internal/cores", "engine/internal/process", "engine/internal/rights", "engine/internal/sleep", "engine/internal/states", "engine/internal/umr", "engine/internal/atomics",
		"fault", "cqe", "packet", "wqe", "internal/clock", "internal/control", "internal/cpu", "internal/nic", "internal/procmem", "internal/reason", "internal/shm",
	},
	"engine/internal/linepacket": {"internal/packetring", "packet"},
	"engine/internal/transport": {
		"engine/internal/traffic", "engine/internal/linepacket", "engine/internal/execution", "engine/internal/completion", "engine/internal/object", "engine/internal/report",
		"engine/internal/wheel", "engine/internal/atomics", "engine/internal/inject", "engine/internal/mailbox", "engine/internal/recovery", "engine/internal/codes", "engine/internal/outage",
		"fault", "cqe", "packet", "wqe", "internal/clock", "internal/control", "internal/nic", "internal/packetring", "internal/procmem", "internal/shm", "trace",
	},
	"engine/internal/loop": {
		"engine/internal/pagefault", "engine/internal/traffic", "engine/internal/transport", "engine/internal/execution", "engine/internal/completion", "engine/internal/report", "engine/internal/object",
		"engine/internal/cgroup", "engine/internal/custody", "engine/internal/inject", "engine/internal/outage", "engine/internal/plan", "engine/internal/recent", "engine/internal/wheel", "engine/internal/codes", "engine/internal/copying", "engine/internal/cores", "engine/internal/journal", "engine/internal/sleep",
		"internal/clock", "internal/control", "internal/cpu", "internal/nic", "internal/procmem", "internal/shm", "trace", "wqe",
	},
	"engine/internal/survey": {
		"engine/internal/loop", "engine/internal/mailbox", "engine/internal/object", "engine/internal/pagefault", "engine/internal/report",
		"internal/board", "internal/clock", "internal/control", "internal/schedstat", "state", "trace",
	},
	"engine/internal/request": {
		"engine/internal/custody", "engine/internal/survey",
		"engine/internal/announce", "engine/internal/pagefault", "engine/internal/loop", "engine/internal/transport", "engine/internal/execution", "engine/internal/report", "engine/internal/object",
		"engine/internal/inject", "engine/internal/closers", "engine/internal/eventsocket", "engine/internal/codes", "engine/internal/mailbox", "engine/internal/numbers", "engine/internal/process", "engine/internal/quota", "engine/internal/rights", "engine/internal/sealer", "engine/internal/sleep", "engine/internal/states", "engine/internal/usage", "engine/internal/tap", "engine/internal/outage",
		"fault", "cqe", "doorbell", "wqe", "internal/board", "internal/clock", "internal/control", "internal/mapholder", "internal/nic", "internal/packetring", "internal/reason", "internal/rendezvous", "internal/shm", "internal/unixsock", "trace",
	},
	"engine": {"fault", "state", "engine/internal/survey", "engine/internal/request", "engine/internal/loop", "engine/internal/object", "engine/internal/cores", "wqe", "internal/nic", "internal/platform"},

	// Links between engines. Carriers are below fabric's users and beside each other.
	"fabric":      {"internal/nic"},
	"fabric/auth": {"fabric"},
	"fabric/roce": {"fabric", "fabric/auth", "packet", "internal/nic", "internal/packetring", "internal/mmsg", "internal/blocking", "internal/budget", "internal/shm", "internal/cpu"},
	// For the server of verbs programs, too.
	"fabric/links": {"fabric", "fabric/auth", "fabric/pool", "fabric/roce", "fabric/ucx", "packet", "internal/board", "internal/nic", "internal/rendezvous", "internal/summary", "internal/unixsock", "state", "verbs"},
	"fabric/pool":  {"fabric", "internal/board", "internal/nic", "internal/packetring", "internal/shm", "internal/cpu", "internal/platform"},
	"fabric/ucx":   {"fabric", "fabric/auth", "internal/board", "internal/nic", "internal/packetring", "internal/shm"},

	"fabric/roce/flood": {"packet", "internal/mmsg"}, // what tests and torture flood ports with

	// The socket server: a client of the engine. The engine does not know it.
	"server": {"state", "engine", "internal/nic", "internal/control", "internal/unixsock"},

	// Emulation of the kernel for programs that use rdma-core: a client of the engine. The
	// engine does not know it.
	"verbs/internal/abi":   {},
	"verbs/internal/mad":   {},
	"verbs/internal/nldev": {},
	"verbs/internal/cm":    {"internal/budget", "internal/nic", "verbs/internal/abi"},
	"verbs":                {"engine", "packet", "wqe", "field/devx", "internal/nic", "internal/shm", "internal/procmem", "internal/clock", "internal/control", "internal/unixsock", "verbs/internal/abi", "verbs/internal/cm", "verbs/internal/mad", "verbs/internal/nldev"},

	// Emulated accelerators: beside the host API, not above it.
	"accel": {"accel/ptx", "wqe", "hostpath", "internal/shm", "internal/cpu", "internal/platform"},

	// Kernels of GPUs: a tree, instructions, lanes. Beside these the recorded arithmetic of a GPU, and the
	// naive interpreter, which shares only the parser with the machine.
	"accel/ptx/internal/syntax":  {},
	"accel/ptx/internal/alu":     {},
	"accel/ptx/internal/code":    {"accel/ptx/internal/syntax", "accel/ptx/internal/alu"},
	"accel/ptx/internal/order":   {},
	"accel/ptx/internal/machine": {"accel/ptx/internal/syntax", "accel/ptx/internal/code", "accel/ptx/internal/alu", "accel/ptx/internal/order", "internal/cpu"},
	"accel/ptx":                  {"accel/ptx/internal/syntax", "accel/ptx/internal/code", "accel/ptx/internal/machine", "accel/ptx/internal/order"},
	"accel/ptx/internal/vectors": {},
	"accel/ptx/internal/naive":   {"accel/ptx/internal/syntax"},

	// GPUs for programs that call CUDA, in a module of their own.
	"cuda/internal/fatbin": {},
	"cuda/internal/gpu":    {"accel/ptx", "cuda/internal/fatbin"},
	"cuda/lib":             {"cuda/internal/gpu", "cuda/internal/fatbin"},
	"internal/fatbin":      {}, // writes fat binaries, for compilers that do not come from NVIDIA

	// Devices for the pods of a Kubernetes node, in a module of their own. Engines are other processes.
	"deploy":                       {},
	"deploy/internal/engines":      {".", "verbs"}, // names and limits only
	"deploy/internal/plugin":       {"deploy/internal/engines"},
	"deploy/nicless-device-plugin": {"deploy/internal/engines", "deploy/internal/plugin"},

	// The host API, and the only place where device and host meet.
	".": {"engine", "fault", "server", "verbs", "fabric/links", "wqe", "cqe", "doorbell", "hostpath", "internal/nic", "internal/reason", "internal/shm", "internal/cpu", "internal/ring", "internal/rendezvous", "internal/control", "internal/platform", "internal/clock", "internal/guardpages", "internal/inside", "internal/summary", "state", "trace", "sanitize"},

	// Devices for tests of programs. The root package lets package niclesstest in by internal/inside.
	"internal/inside": {"hostpath", "internal/control", "internal/platform"},
	"niclesstest":     {".", "fault", "fault/rulefile", "internal/inside", "internal/control", "internal/clock", "hostpath", "cqe", "sanitize", "trace", "trace/objects", "trace/text"},

	// A network interface over the fabric: a client of an engine, above the host API.
	"netdev/names": {},
	"netdev":       {".", "fabric", "fabric/pool", "cqe", "internal/tun", "internal/shm", "internal/cpu", "internal/clock"},

	// Programs, and the features of the command that have separate packages.
	"tools/internal/cores":   {},
	"tools/bench":            {".", "engine", "cqe", "internal/shm", "internal/clock", "tools/internal/cores", "tools/internal/svg", "tools/quantile"},
	"tools/calibrate":        {"internal/shm", "internal/clock", "internal/cpu", "internal/platform", "tools/internal/cores", "tools/quantile"},
	"tools/costs":            {"model", "model/rack", "internal/paragraph", "tools/internal/svg"},
	"tools/quantile":         {},
	"tools/internal/svg":     {"internal/paragraph"},
	"tools/internal/scratch": {},
	"tools/torture":          {".", "cqe", "wqe", "doorbell", "internal/shm", "internal/control", "internal/verdict", "internal/paragraph", "tools/internal/scratch"},
	"tools/explore":          {"engine", "fault", "trace", "trace/text", "wqe", "cqe", "doorbell", "internal/clock", "internal/control", "internal/nic", "internal/shm", "internal/verdict"},
	"tools/linktorture":      {".", "cqe", "packet", "internal/verdict", "tools/internal/scratch", "fabric/pool", "fabric/ucx", "internal/nic", "internal/shm", "internal/unixsock"},
	"tools/rack":             {".", "fabric/links", "internal/netns", "internal/unixsock"},
	"cmd/nicless": {".", "state", "sanitize", "accel/ptx", "fault", "fault/rulefile", "trace", "trace/objects", "trace/text", "trace/jsonl", "trace/lines", "trace/perfetto", "trace/roce", "trace/replay", "trace/record", "internal/verdict", "engine", "verbs", "netdev", "netdev/names", "fabric", "fabric/auth", "fabric/links", "model", "model/traffic", "tools/costs", "tools/quantile", "internal/paragraph", "internal/nic", "internal/tun", "wqe", "cqe", "doorbell", "packet", "field", "field/devx", "field/known", "field/paste", "field/report", "internal/clock", "internal/control", "internal/fatbin", "internal/platform", "internal/unixsock",
		"cmd/nicless/internal/metrics", "cmd/nicless/internal/top", "cmd/nicless/internal/web", "tools/bench", "tools/calibrate", "tools/torture", "tools/linktorture", "tools/explore"},
	// The metrics of an engine: a client of its sockets, apart from where they are.
	"cmd/nicless/internal/metrics": {".", "cmd/nicless/internal/conns", "state", "fabric", "fabric/links", "internal/unixsock"},

	"cmd/nicless/internal/conns":      {},
	"cmd/nicless/internal/latency":    {".", "cqe", "trace", "state"},
	"cmd/nicless/internal/enginetest": {".", "internal/await"}, // tests only
	"cmd/nicless/internal/web": {".", "cmd/nicless/internal/conns", "cmd/nicless/internal/latency", "cqe", "fabric/links", "fault", "fault/rulefile", "field",
		"internal/unixsock", "state", "tools/decodepage/answer", "trace", "trace/text", "wqe"},
	"cmd/nicless/internal/top": {".", "cmd/nicless/internal/latency", "cqe", "fabric/links", "field", "internal/unixsock", "state",
		"trace/objects", "trace/text", "wqe"},
	"examples/*":        {".", "wqe", "cqe", "accel"},
	"examples/lastbyte": {".", "fault", "fault/rulefile"},
	// Reports of trackers, repeated with rules of faults.
	"examples/incidents": {".", "cqe", "fault", "fault/rulefile"},
	// In a module of its own, for OpenTelemetry's SDK.
	"examples/otelspans": {".", "cqe", "wqe", "trace", "trace/objects"},
	"examples":           {},

	// A generator of documents that repeat the tables of the formats.
	"internal/opcodes": {"wqe", "cqe"},

	// The laboratory, and programs for those who work on this tree.
	"tools/lab":            {},
	"tools/lab/build":      {"internal/lab", "internal/lab/nodes"},
	"tools/lab/raw":        {"fabric/pool", "internal/cpu", "internal/shm", "tools/quantile"},
	"tools/lab/exchange":   {"."},
	"tools/lab/onlymemory": {".", "accel", "wqe", "cqe"},
	"tools/lab/poster":     {"tools/lab/exchange", "tools/lab/onlymemory", "tools/lab/raw"},
	"tools/walls":          {},
	"tools/steady":         {"tools/quantile"},
	"tools/steady/run":     {"tools/steady"},
	"tools/filecopy":       {".", "cqe"},
	"tools/abi":            {},
	"tools/slowest":        {},
	"tools/words":          {},

	// Pages for browsers, which have no engine, and the browser of their tests.
	"tools/chromium":          {"internal/proctest"},
	"tools/decodepage":        {},
	"tools/decodepage/answer": {"field/known", "field/report", "wqe"},
	"tools/decodepage/run":    {"tools/decodepage"},
	"tools/decodepage/wasm":   {"tools/decodepage/answer"},
	"tools/site":              {"tools/decodepage"},
	// The module that makes releases imports nothing of the tree: docs/design/0081.
	"release":       {"release/*"},
	"release/bill":  {},
	"release/glibc": {},
	"release/image": {},
	"release/pack":  {},

	// Tests only.
	"internal/modules":    {},
	"internal/apitest":    {},
	"internal/tree":       {},
	"internal/incoherent": {"internal/shm"},
	"internal/lab":        {"internal/clock"},
	"internal/freeport":   {},
	"internal/netns":      {},
	"internal/lab/guest":  {"internal/lab", "internal/lab/finder"},
	"internal/lab/finder": {},
	"internal/lab/nodes":  {"internal/lab"},
	"internal/lab/cable":  {},
	"internal/await":      {"internal/schedstat"},
	"internal/explore":    {},
	"internal/share":      {},
	"internal/races":      {},
	"internal/program":    {"internal/await"},
	"internal/proctest":   {"internal/await", "internal/schedstat"},
	"internal/shimtest":   {},
	"internal/vectors":    {},
	"internal/tracetest":  {"internal/vectors", "trace", "wqe", "cqe", "packet"},
	"internal/cudatest":   {"internal/fatbin", "internal/proctest"},
	"include":             {},
	"verbs/programs":      {},
	"netdev/programs":     {},
	"cuda/programs":       {},
	"verbs/shim/check":    {},
	"fabric/ucx/ucxtest":  {},
	"fabric/optiontest":   {},

	// Requests that posters of several kinds post in tests.
	"include/internal/requests": {".", "accel"},
}

// mayBeUnsafe lists the packages that may have *_unsafe.go files, which may import
// unsafe, and .s files, which contain assembly.
var mayBeUnsafe = []string{"internal/shm", "internal/cpu", "internal/crc", "internal/procmem", "internal/clock", "internal/mapholder", "internal/mmsg", "internal/guardpages",
	"internal/blocking", "accel/ptx/internal/machine", "cuda/internal/gpu"}

// behindC lists packages whose every file may import unsafe, because their functions are called from C.
var behindC = []string{"cuda/lib"}

func TestLayering(t *testing.T) {
	atRoot(t)
	seen := make(map[string]bool)
	each(t, func(file string, f *ast.File) {
		dir := path.Dir(file)
		allowed, ok := mayImport[dir]
		if !ok && path.Dir(dir) == "examples" {
			allowed, ok = mayImport["examples/*"], true
		}
		if !ok {
			t.Errorf("%s: folder %q has no row in mayImport", file, dir)
			return
		}
		seen[dir] = true
		for _, imp := range f.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			confined := strings.HasSuffix(file, "_unsafe.go") && slices.Contains(mayBeUnsafe, dir)
			if name == "unsafe" && !confined && !slices.Contains(behindC, dir) {
				t.Errorf("%s imports unsafe; only *_unsafe.go files of %v may", file, mayBeUnsafe)
			}
			ours, ok := strings.CutPrefix(name, module)
			if inOtherModule(strings.TrimPrefix(ours, "/")) && ok && !inOtherModule(dir) {
				t.Errorf("%s imports %s, which is in another module: the library and its tests need neither instruments nor the command", file, name)
			}
			if !ok || strings.HasSuffix(file, "_test.go") {
				continue // tests may import any package
			}
			ours = strings.TrimPrefix(ours, "/")
			if ours == "" {
				ours = "."
			}
			if !slices.Contains(allowed, ours) && !slices.Contains(allowed, path.Dir(ours)+"/*") {
				t.Errorf("%s imports %s; %s may import %v", file, ours, dir, allowed)
			}
		}
	})
	require.Greater(t, len(seen), 10, "the walk found the packages")
}

// inOtherModule reports whether a folder is in a module of its own. See docs/design/0057.
func inOtherModule(dir string) bool {
	others := []string{"tools/", "cmd/nicless/", "cuda/", "deploy/", "examples/otelspans/", "release/"}
	return slices.ContainsFunc(others, func(m string) bool { return strings.HasPrefix(dir+"/", m) })
}

func TestAssemblyIsConfined(t *testing.T) {
	atRoot(t)
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(file, ".s") && !slices.Contains(mayBeUnsafe, filepath.ToSlash(filepath.Dir(file))) {
			t.Errorf("%s: assembly belongs into %v", file, mayBeUnsafe)
		}
		return err
	}))
}

// needLinux lists the packages that build only on Linux on amd64 and arm64. On other systems,
// either no other package imports such a package, or the package has a file for these systems
// whose functions return an error.
var needLinux = []string{"engine", "fabric/links", "engine/internal/*", "fabric/roce", "fabric/roce/*", "fabric/ucx", "internal/lab", "internal/lab/*", "tools/lab", "tools/lab/*", "internal/mmsg", "internal/tun", "netdev", "server", "verbs", "internal/mapholder", "internal/unixsock", "cuda/internal/gpu", "cuda/lib", "deploy/internal/*",
	"tools/bench", "tools/internal/scratch", "tools/torture", "tools/filecopy", "tools/internal/cores", "tools/calibrate", "cmd/nicless/internal/metrics"}

// All packages must build on every system, because the formats and nicless decode work
// everywhere. .ci/run builds them for some systems.
func TestFilesThatNeedLinux(t *testing.T) {
	atRoot(t)
	const constraint = "//go:build linux && (amd64 || arm64)\n"
	portable := []string{"doc.go", "engine/config.go", "verbs/shim_embedded.go", "fabric/ucx/embedded.go", "fabric/ucx/inside.go",
		"tools/calibrate/result.go",
		"internal/tun/config.go", "internal/tun/vnet.go", "internal/tun/check.go", "internal/tun/segments.go"}
	files := 0
	for _, pkg := range needLinux {
		list, err := filepath.Glob(pkg + "/*.go")
		require.NoError(t, err)
		for _, file := range list {
			file = filepath.ToSlash(file)
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_other.go") || slices.Contains(portable, file) || slices.Contains(portable, path.Base(file)) {
				continue
			}
			if name := strings.TrimSuffix(path.Base(file), ".go"); strings.HasSuffix(name, "_linux_amd64") || strings.HasSuffix(name, "_linux_arm64") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasPrefix(string(text), constraint) {
				t.Errorf("%s does not begin with %q, followed by an empty line", file, strings.TrimSpace(constraint))
			}
			files++
		}
	}
	require.Greater(t, files, 100, "the patterns find files")
}

// each parses every Go file of the module and calls visit with it.
func each(t *testing.T, visit func(file string, f *ast.File)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(file), f)
		return nil
	}))
}
