//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options say how the screen behaves. Now, CPU and After are for tests; Run sets those that are nil.
type Options struct {
	Engine   string        // path of the engine's socket, which the screen shows
	Interval time.Duration // least time between two refreshes
	ASCII    bool          // draw with ASCII only

	Now   func() time.Time
	CPU   func() time.Duration                       // processor time of this process
	After func(d time.Duration, msg tea.Msg) tea.Cmd // a command that ends with msg after d
}

// The tables, in the order of Tab.
const (
	queuesTable = iota
	clientsTable
	cqsTable
	tables
)

var tableNames = [tables]string{"Queues", "Clients", "CQs"}

// A layer is what takes the keys, above the table or page.
type layer int

const (
	noLayer layer = iota
	helpLayer
	filterLayer // a line in which the filter is typed
	sortLayer   // a list of columns
)

// A Model is the screen. It is driven by messages; see the package comment. Not safe for concurrent use.
type Model struct {
	ctx    context.Context
	source Source
	opt    Options
	st     *styles

	width, height int
	pic           picture
	links         Links
	latencies     map[uint32]*measured
	table         int
	grids         [tables]grid
	page          *page // nil: a table is shown
	layer         layer
	choice        int // of sortLayer
	scroll        int // of helpLayer

	paused     bool
	gone       string        // why the engine did not answer; "": it has
	pause      time.Duration // until the next refresh
	drawn      time.Duration // how long the last drawing took
	sampleCost time.Duration // processor time of the samples since the last answer
	ticks      int
	querying   bool // a question is on its way
	queryAgain bool // and the screen needs another one
	sampling   bool
	refreshes  int // in which samples were possible
	turn       int // of the queue that was sampled last
}

// New returns a screen, which ends its questions with ctx. The commands that it returns ask the source, and
// may run at the same time.
func New(ctx context.Context, source Source, opt Options) *Model {
	m := &Model{ctx: ctx, source: source, opt: opt, st: newStyles(opt.ASCII), width: 80, height: 24,
		pause: opt.Interval, latencies: map[uint32]*measured{}}
	m.grids = [tables]grid{newQueues(&m.pic.queues, m.latencies), newClients(&m.pic.clients),
		newCQs(&m.pic.cqs)}
	return m
}

func (m *Model) grid() grid { return m.grids[m.table] }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return m.query() }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 6)
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.layer == filterLayer {
			m.typed(msg.Content)
		}
	case tick:
		if msg.number == m.ticks && !m.paused {
			return m, m.query()
		}
	case answer:
		return m, m.take(msg)
	case sampled:
		m.takeSamples(msg)
	}
	return m, nil
}
