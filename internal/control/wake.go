package control

// Wake says whether posters of this client wake the device when the status page says that
// the device is asleep. Until the client has said that all do, the device takes only short
// sleeps.
type Wake struct {
	Wakes uint8
}

// Values of Wake.Wakes.
const (
	WakeNever      = 0 // some posters do not wake the device
	WakeAlways     = 1 // all do, and the answer has the eventfd
	WakeUnpromised = 2 // as WakeNever, but the answer has the eventfd, for those that do
)

func (m *Wake) walk(w walker) { w.u8("wakes", &m.Wakes) }
