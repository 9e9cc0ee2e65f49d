//go:build linux && (amd64 || arm64)

package cm

// Close ends a channel whose descriptor no program has any more: its ids end, and their peers are notified.
func (m *Manager) Close(ch *Channel) {
	m.mu.Lock()
	defer m.unlock()
	m.closeChannel(ch)
}

func (m *Manager) closeChannel(ch *Channel) {
	if !m.channels[ch] {
		return
	}
	delete(m.channels, ch)
	for _, e := range ch.drop(func(*event) bool { return true }) {
		if e.newID != nil {
			m.destroy(e.newID) // rejects the request
		}
	}
	for _, i := range m.ids {
		if i.channel == ch {
			m.destroy(i)
		}
	}
	m.Accounts.Refund(ch.uid, channelCost)
}

// Remove notifies every id that the device goes. After that no more ids are made.
func (m *Manager) Remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removed = true
	for _, i := range m.ids {
		if i.attached {
			i.notifyStatus(deviceRemoval, 0)
		}
	}
}

// Unread returns how many events wait to be read.
func (m *Manager) Unread() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ch := range m.channels {
		n += len(ch.events)
	}
	return n
}

// Leftovers returns how many channels, ids, ports and memberships there are, for tests.
func (m *Manager) Leftovers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.channels) + len(m.ids) + len(m.ports) + len(m.groups) + len(m.links) + len(m.peers)
}
