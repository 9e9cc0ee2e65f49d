package control

// Wake says whether all posters of this client wake the device when the status page says
// that the device is asleep. Until the client has said so, the device takes only short
// sleeps.
type Wake struct {
	Wakes uint8
}

func (m *Wake) walk(w walker) { w.u8("wakes", &m.Wakes) }
