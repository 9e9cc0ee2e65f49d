//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs"
	"github.com/spf13/cobra"
)

const engineUsage = `Runs an engine. An engine is a device for the processes that connect to its
socket: it polls their queues and moves bytes between their registered memory.
It needs no privileges. SIGINT or SIGTERM ends the engine; its clients then see
that the device is gone, and the socket is removed. A second signal kills the
engine at once, and what it has made stays.

Usage:
  nicless engine --socket PATH [flags]

Flags:
  --socket PATH       unix socket to make, at most 107 bytes. Choose a directory
                      in which only you can write: in /tmp anybody can create
                      PATH.lock before you do
  --mode MODE         permission bits of the socket: who may connect (0600)
  --cpu LIST          cores that it may run on, such as 2,4-6 (default: any)
  --cores LIST        start one thread of the engine on each of these cores; the
                      threads share the clients. It cannot be combined with
                      --cpu (default: one thread)
  --dma-cores LIST    start a thread that copies long transfers on each of these
                      cores; choose none of the engine's (docs/TUNING.md)
  --populate          allocate the pages of a region at once (docs/SECURITY.md)
  --idle POLICY       what the engine does when it has no work: sleep until a
                      client wakes it, spin, or umwait, which rests the core
                      between polls and needs WAITPKG (default: sleep)
  --spin              the same as --idle spin
  --verbs             serve programs of rdma-core, in PATH.verbs (docs/VERBS.md)
  --verbs-devices N   devices that programs of rdma-core see (default: 1)
  --link-layer LIST   link layers of these devices, in turn: ethernet (RoCE),
                      infiniband, or both with a comma (default: ethernet)
  --device-name NAME  their names; %d is the number (default: nicless%d)
  --no-devx           no firmware commands (DEVX) for programs; --devx (default)
  --guard-posts       execute only whole WQEs; --no-guard-posts (default)
  --guid GUID         GUID of the engine and its first device, 16 hexadecimal
                      digits (default: one that stays; see docs/VERBS.md)
  --link LINK         a link to other engines and hosts; may be repeated:
                      pool:PATH[,node=N] memory that several engines share
                      roce:ADDRESS[,peer=PREFIX]
                                         RoCE on a local address, UDP port 4791,
                                         with these remote addresses
                      ucx:HOST:PORT      UCX, to a peer that waits with
                                         ucx:listen=ADDRESS:PORT[,peer=PREFIX]
                      auto[,address=PREFIX][,peer=PREFIX]
                                         RoCE opens by itself, on the address
                                         of a path or a listener: only on these
                                         local addresses, with these remote
                                         ones (auto: default with --verbs). For
                                         a listener on all addresses it opens
                                         on private ones and on those that
                                         address= names
                      none               no links (default without --verbs)
                      peer= and address= may be repeated. With
                      ,key=FILE[,peers=FILE][,trust=first][,auth=offered]
                      [,encrypt] after roce:, auto or ucx:, peers prove that
                      they have keys (nicless key --help). See docs/FABRIC.md
  --link-users LIST   users, by name or uid, for whose programs auto opens RoCE,
                      or all (default: root and the engine's user)
  --disclose WHAT     to other engines: counts (default), programs too, nothing
  --faults FILE       obey rules of faults, for all clients (docs/FAULTS.md)
  --sanitize          print mistakes of clients (docs/SANITIZER.md); slows them
  --metrics ADDRESS   serve metrics for Prometheus, such as at 127.0.0.1:9464;
                      see docs/METRICS.md for who can read them
  --log-level LEVEL   debug, info, warn, error or off (default: warn)

Example:
  nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock
  nicless engine --socket /run/nicless/engine.sock --mode 0660 --cpu 3 --spin
`

type engineFlags struct {
	socket, mode, cpus, cores, dma, level, idle string
	spin, verbs, populate, devx, noDEVX         bool
	sanitize                                    bool
	guard, noGuard                              bool
	devices                                     int
	names, guid                                 string // --device-name, --guid
	links                                       []string
	fabric                                      []string
	linkUsers                                   []string
	disclose                                    string
	users                                       string // a lock file; "": only a signal ends the engine
	faults                                      string
	metrics                                     string // address; "": none
	readyFD                                     int    // written when the engine is ready; 0: none
}

func newEngine() *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "engine",
		Short: "serve processes that connect to a unix socket",
		Long:  engineUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// The first signal starts an orderly stop of the engine; a second signal kills it.
			context.AfterFunc(ctx, stop)
			// The engine must continue when the reader of its log is gone. To ignore
			// SIGPIPE would be enough for that, but child processes would inherit it.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			if err := checkPairs(c); err != nil {
				return err
			}
			if err := checkNames("engine", f.names, c.Flags().Changed("device-name"), f.devices); err != nil {
				return err
			}
			return f.serve(ctx, c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&f.socket, "socket", "", "unix socket to make")
	c.Flags().StringVar(&f.mode, "mode", "0600", "permission bits of the socket")
	c.Flags().StringVar(&f.cpus, "cpu", "", "cores that the engine may run on")
	c.Flags().StringVar(&f.cores, "cores", "", "cores that each run a thread of the engine")
	c.Flags().StringVar(&f.dma, "dma-cores", "", "cores that copy long transfers")
	c.Flags().BoolVar(&f.populate, "populate", false, "allocate all pages of a region at once")
	c.Flags().StringVar(&f.idle, "idle", "", "what the engine does without work")
	c.Flags().BoolVar(&f.spin, "spin", false, "never sleep")
	c.Flags().BoolVar(&f.verbs, "verbs", false, "serve unmodified programs of rdma-core too")
	c.Flags().IntVar(&f.devices, "verbs-devices", 1, "devices that such programs see")
	c.Flags().StringSliceVar(&f.links, "link-layer", nil, "link layers of these devices")
	c.Flags().StringVar(&f.names, "device-name", "", "names of these devices")
	c.Flags().StringVar(&f.guid, "guid", "", "GUID of the engine and its first device")
	c.Flags().BoolVar(&f.devx, "devx", false, "such programs may use firmware commands: the default")
	c.Flags().BoolVar(&f.noDEVX, "no-devx", false, "they may not")
	c.Flags().BoolVar(&f.guard, "guard-posts", false, "execute their WQEs when all of them is there")
	c.Flags().BoolVar(&f.noGuard, "no-guard-posts", false, "trust the order of their stores: the default")
	c.Flags().StringArrayVar(&f.fabric, "link", nil, "a link to other engines and hosts")
	c.Flags().StringSliceVar(&f.linkUsers, "link-users", nil, "users for whom RoCE opens by itself")
	c.Flags().StringVar(&f.disclose, "disclose", "counts", "what other engines on its links are told")
	c.Flags().StringVar(&f.faults, "faults", "", "rules of faults")
	_ = c.MarkFlagFilename("faults")
	c.Flags().BoolVar(&f.sanitize, "sanitize", false, "print mistakes of clients")
	c.Flags().StringVar(&f.metrics, "metrics", "", "address at which metrics are served")
	c.Flags().StringVar(&f.level, "log-level", "warn", "least level that is logged")
	c.Flags().StringVar(&f.users, "users", "", "for nicless run")
	c.Flags().IntVar(&f.readyFD, "ready-fd", 0, "for nicless run")
	_ = c.Flags().MarkHidden("users")
	_ = c.Flags().MarkHidden("ready-fd")
	_ = c.MarkFlagFilename("socket")
	_ = c.RegisterFlagCompletionFunc("idle",
		cobra.FixedCompletions([]string{"sleep", "spin", "umwait"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("link", completeLink)
	_ = c.RegisterFlagCompletionFunc("disclose",
		cobra.FixedCompletions([]string{"counts", "programs", "nothing"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(
		[]string{"debug", "info", "warn", "error", "off"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// completeLink completes the beginnings of links.
var completeLink = cobra.FixedCompletions([]string{"auto", "auto,address=", "auto,peer=", "none", "roce:",
	"pool:", "ucx:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)

// serve runs the engine until ctx ends.
func (f *engineFlags) serve(ctx context.Context, stderr io.Writer) error {
	if f.socket == "" {
		return usagef("nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock", "engine: --socket is missing")
	}
	if err := checkSocketPath(f.socket); err != nil {
		return err
	}
	if dir := filepath.Dir(f.socket); missing(dir) {
		return hintf("make it first: mkdir -p "+dir, "engine: socket %s: directory %s does not exist", f.socket, dir)
	}
	mode, err := strconv.ParseUint(f.mode, 8, 32)
	if err != nil || mode > 0o777 {
		return usagef("octal, 0 to 0777, such as 0600 for yourself or 0660 for a group", "engine: --mode %q is not permission bits", f.mode)
	}
	cfg := nicless.Config{}
	cfg.Faults, err = readRules("engine", f.faults)
	if err != nil {
		return err
	}
	if err := f.policy(&cfg); err != nil {
		return err
	}
	if f.devices < 1 || f.devices > verbs.MaxDevices {
		return usagef(fmt.Sprintf("1 to %d are possible", verbs.MaxDevices), "engine: --verbs-devices %d", f.devices)
	}
	if f.devices > 1 && !f.verbs {
		return usagef("add --verbs", "engine: --verbs-devices %d without --verbs", f.devices)
	}
	if len(f.links) > 0 && !f.verbs {
		return usagef("add --verbs", "engine: --link-layer without --verbs")
	}
	if f.devx && f.noDEVX {
		return usagef("leave one of them out", "engine: --devx and --no-devx exclude each other")
	}
	if (f.devx || f.noDEVX) && !f.verbs {
		return usagef("add --verbs", "engine: --%s without --verbs", map[bool]string{true: "devx", false: "no-devx"}[f.devx])
	}
	if f.guard && f.noGuard {
		return usagef("leave one of them out", "engine: --guard-posts and --no-guard-posts exclude each other")
	}
	if f.guard && !f.verbs {
		return usagef("add --verbs", "engine: --guard-posts without --verbs")
	}
	if err := checkLinks("engine", f.links); err != nil {
		return err
	}
	if f.verbs {
		cfg.VerbsLinks = f.links
		cfg.VerbsDevices = f.devices
		cfg.NoVerbsDEVX = f.noDEVX
		cfg.VerbsGuardPosts = f.guard
		if err := checkSocketPath(filepath.Join(f.socket+nicless.VerbsSuffix, verbs.SocketName)); err != nil {
			return err
		}
	}
	if f.cpus != "" && f.cores != "" {
		return usagef("--cpu says where the one thread may run, --cores starts a thread on each core", "engine: --cpu %s and --cores %s exclude each other", f.cpus, f.cores)
	}
	cfg.CPUs, err = parseCores("engine", "cpu", f.cpus)
	if err != nil {
		return err
	}
	cfg.Cores, err = parseCores("engine", "cores", f.cores)
	if err != nil {
		return err
	}
	named, err := links.Parse(f.fabric)
	if err != nil {
		return usagef("pool:PATH, roce:ADDRESS, ucx:HOST:PORT, auto and none are possible; see docs/FABRIC.md", "engine: --link: %v", err)
	}
	cfg.Links = f.fabric
	cfg.DeviceNames = f.names
	warnNames(stderr, f.names, f.devices)
	claimed, err := claimGUID(f.guid, f.devices, stderr)
	if err != nil {
		return err
	}
	if claimed != nil {
		defer claimed.release()
		cfg.GUID = claimed.first
	}
	if _, err := links.ParseUsers(f.linkUsers); err != nil {
		return usagef("names of users and uids, with commas between, or all", "engine: --link-users: %v", err)
	}
	if len(f.linkUsers) > 0 && (!named.Auto || len(f.fabric) == 0 && !f.verbs) {
		return usagef("add --link auto", "engine: --link-users: only the link auto asks for users; --link auto is missing")
	}
	cfg.LinkUsers = f.linkUsers
	if _, err := links.ParseDisclosure(f.disclose); err != nil {
		return usagef("counts, programs and nothing are possible", "engine: --disclose %q", f.disclose)
	}
	cfg.Disclose = f.disclose
	cfg.Populate = f.populate
	cfg.DMACores, err = parseCores("engine", "dma-cores", f.dma)
	if err != nil {
		return err
	}
	if len(cfg.Cores) > 1 && cfg.DMACores != nil {
		return usagef("--dma-cores helps an engine of one thread; see --cpu", "engine: --cores %s and --dma-cores %s exclude each other", f.cores, f.dma)
	}
	cfg.Log, err = newLog("engine", f.level, stderr)
	if err != nil {
		return err
	}
	if f.users != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		if err := whenUnused(f.users, cancel); err != nil {
			return err
		}
	}
	addThreads()
	service := takeManager()
	if f.readyFD > 0 {
		service = "" // the engine of a program is no service, although its program may be one
	}
	reported := service.reportStop(ctx, stderr)
	defer reported()
	served, err := listenForMetrics("engine", f.metrics)
	if err != nil {
		return err
	}
	defer served.stop()
	beginSanitizer, endSanitizer := func() {}, func() {}
	if f.sanitize {
		beginSanitizer, endSanitizer = sanitizeClients(f.socket, stderr)
	}
	err = nicless.Serve(ctx, f.socket, fs.FileMode(mode), cfg, func() {
		fmt.Fprintf(stderr, "nicless: engine ready at %s (pid %d)\n", f.socket, os.Getpid())
		served.serve(f.socket, func(port int) string { return nic.Names(f.names).Of(uint8(port)) }, stderr)
		beginSanitizer()
		if f.readyFD > 0 {
			notifyReady(f.readyFD)
		}
		service.report("READY=1", stderr)
	})
	endSanitizer()
	if err != nil {
		return &hinted{err: err, hint: f.hint(err)}
	}
	fmt.Fprintln(stderr, "nicless: engine stopped")
	return nil
}

// policy sets what the engine does when it has no work.
func (f *engineFlags) policy(cfg *nicless.Config) error {
	switch f.idle {
	case "":
		cfg.Spin = f.spin
	case "sleep":
	case "spin":
		cfg.Spin = true
	case "umwait":
		cfg.Monitor = true
	default:
		return usagef("sleep, spin or umwait", "engine: --idle %q is not a policy", f.idle)
	}
	if f.spin && !cfg.Spin {
		return usagef("--spin means --idle spin", "engine: --idle %s and --spin exclude each other", f.idle)
	}
	return nil
}

// missing reports whether there is no file of that name.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (f *engineFlags) hint(err error) string {
	switch {
	case errors.Is(err, engine.ErrCPUs) && f.cores != "":
		return "--cores takes cores that this process may run on, each once; taskset -p $$ shows them"
	case errors.Is(err, engine.ErrCPUs):
		return "--cpu and --dma-cores take different cores that this process may run on; taskset -p $$ shows them"
	case errors.Is(err, nicless.ErrLink):
		return "nicless engine --help lists the links; docs/FABRIC.md explains them"
	case errors.Is(err, fs.ErrPermission):
		return "choose a directory of your own, such as $XDG_RUNTIME_DIR, or one that mktemp -d makes"
	}
	return "choose another path, or stop the engine that is there"
}

// maxSocketPath is the most bytes in the path of a unix socket: the length of sun_path
// without its terminating zero.
const maxSocketPath = 107

func checkSocketPath(path string) error {
	if len(path) > maxSocketPath {
		return usagef("a shorter path, such as one in $XDG_RUNTIME_DIR, or a relative one",
			"socket path of %d bytes; a unix socket's has at most %d", len(path), maxSocketPath)
	}
	return nil
}

// parseCores parses the list of cores of a flag, such as 0,2-4. For an empty list it
// returns nil.
func parseCores(command, flag, list string) (cpus []int, err error) {
	if list == "" {
		return nil, nil
	}
	bad := func() ([]int, error) {
		return nil, usagef("cores and ranges with commas between, such as 1 or 2,4-6", "%s: --%s %q is not a list of cores", command, flag, list)
	}
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(lo, 10, 10)
		if err != nil {
			return bad()
		}
		last := first
		if isRange {
			if last, err = strconv.ParseUint(hi, 10, 10); err != nil || last < first {
				return bad()
			}
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

func newLog(command, level string, w io.Writer) (*slog.Logger, error) {
	if level == "off" {
		return nil, nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("debug, info, warn, error or off", "%s: --log-level %q is not a level", command, level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

// checkPairs refuses false for a flag that has an opposite: neither of the two is set then, so it would
// have no effect. The opposite says what is meant.
func checkPairs(c *cobra.Command) error {
	for _, flag := range []string{"devx", "no-devx", "guard-posts", "no-guard-posts"} {
		opposite, negative := strings.CutPrefix(flag, "no-")
		if !negative {
			opposite = "no-" + flag
		}
		if f := c.Flags().Lookup(flag); f.Changed && f.Value.String() == "false" {
			return usagef(c.CommandPath()+" --"+opposite, "%s: --%s=false: --%s says that", c.Name(), flag, opposite)
		}
	}
	return nil
}

// checkLinks checks a list of link layers.
func checkLinks(command string, links []string) error {
	for _, l := range links {
		if l != string(verbs.Ethernet) && l != string(verbs.InfiniBand) {
			return usagef("ethernet and infiniband are possible, or both: ethernet,infiniband", "%s: --link-layer %q", command, l)
		}
	}
	return nil
}
