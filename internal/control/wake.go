package control

// Wake says whether all posters of this client wake the device when its status page
// says that it is asleep. Until they do, the device sleeps for short times only.
type Wake struct {
	Wakes uint8
}

func (m *Wake) walk(w walker) { w.u8("wakes", &m.Wakes) }
