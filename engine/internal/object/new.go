//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/nicless/nicless/engine/internal/bulletin"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/clock"
)

// NewDevice returns a device without threads. It takes keys and numbers from the source random.
func NewDevice(cfg Settings, log *slog.Logger, random io.Reader) (*Device, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, err
	}
	e := &Device{
		Settings: cfg,
		GUID:     binary.LittleEndian.Uint64(b[:]),
		Numbers:  numbers.All{Keys: &numbers.Keys{Random: random}},
		QPs:      make(map[uint32]*QP),
		Groups:   make(map[[16]byte]*Group),
		CQs:      make(map[uint32]*CQ),
		SRQs:     make(map[uint32]*SRQ),
		XRCDs:    make(map[uint32]*XRCD),
		Journal:  journal.New(log),
		Ledger:   quota.New(SystemRoot),

		Spoken:    connectionLines(),
		Explained: explanationLines(),
	}
	e.Keys = NewKeyTable(e.Numbers.Keys)
	e.Bulletin.Users = bulletin.UsersOf(e.Ledger.Payer)
	e.Numbers.QP, e.Numbers.CQ, e.Numbers.SRQ = numbers.New(random), numbers.New(random), numbers.New(random)
	e.PublishCycles = clock.Cycles(publishTime) // this calibrates the clock, which takes too long for a step
	return e, nil
}

// SystemRoot has the files of the kernel that say what this process may use. Tests, which make thousands of
// engines, read each file once.
var SystemRoot fs.FS = os.DirFS("/")
