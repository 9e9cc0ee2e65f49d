package control

// MaxAnnouncement is the most bytes of an announcement: with its header, an answer that contains
// one fits into a datagram.
const MaxAnnouncement = 480

// Announce replaces what the client announces. The value may be any bytes. If it is empty, the
// client announces nothing any more.
type Announce struct {
	Value string
}

func (m *Announce) walk(w walker) { w.text("value", &m.Value) }

// Audiences of an announcement.
const (
	AudienceUser uint32 = iota // clients of the user of the client that announces, as the device knows it
	AudienceAll                // all clients
)

// AnnounceTo is Announce with an audience. Announce has AudienceUser.
type AnnounceTo struct {
	Audience uint32
	Value    string
}

func (m *AnnounceTo) walk(w walker) {
	w.u32("audience", &m.Audience)
	w.text("value", &m.Value)
}

// An AnnouncementPlace is a place in the list of all announcements, which is sorted by device
// and client. The zero place is before the first announcement.
type AnnouncementPlace struct {
	Device uint64
	Client uint32
}

func (m *AnnouncementPlace) walk(w walker) {
	w.u64("device", &m.Device)
	w.u32("client", &m.Client)
}

// Announcement is the first announcement after a place of another client that this client may read. Client is
// 0 if there is none.
type Announcement struct {
	AnnouncementPlace
	Value string
}

func (m *Announcement) walk(w walker) {
	m.AnnouncementPlace.walk(w)
	w.text("value", &m.Value)
}

// ChangesSince asks for the first change of the announcements that is later than Since. The first one is 1.
// If Notify is 1, the client is notified of the next change after this request, as if it had read from the
// beginning.
type ChangesSince struct {
	Since  uint64
	Notify uint32
}

func (m *ChangesSince) walk(w walker) {
	w.u64("since", &m.Since)
	w.u32("notify", &m.Notify)
}

// Change says whose announcement has changed, or has ended: a client reads it again. Client is 0 if there is
// no change that the client may know.
type Change struct {
	AnnouncementPlace
	Dropped uint32 // 1: changes after Since are dropped, and the client reads everything; Client is 0
	Number  uint64 // of the change
	Newest  uint64 // the number of the newest change
}

func (m *Change) walk(w walker) {
	m.AnnouncementPlace.walk(w)
	w.u32("dropped", &m.Dropped)
	w.u64("number", &m.Number)
	w.u64("newest", &m.Newest)
}
