//go:build linux && (amd64 || arm64)

package nldev

// Values of AttrStatRes and AttrStatMode.
const (
	StatResQP, StatResMR           = attrResQP, attrResMR
	StatNone, StatAuto, StatManual = 0, 1, 2
)

// A Counter is a counter of a port.
type Counter struct {
	Name  string
	Value uint64
}

func (d *Device) portHandle(port uint32) List {
	l := d.Handle()
	l.u32(AttrPortIndex, port)
	return l
}

// Counters returns what STAT_GET answers for a port.
func (d *Device) Counters(port uint32, all []Counter) List {
	var table List
	for _, c := range all {
		var item List
		item.text(attrHWCounterName, c.Name)
		item.u64(attrHWCounterValue, c.Value)
		table.flagged(attrHWCounter, item)
	}
	l := d.portHandle(port)
	l.flagged(attrHWCounters, table)
	return l
}

// CounterStatus returns what STAT_GET_STATUS answers: the names and numbers of a port's counters, none of
// which is optional.
func (d *Device) CounterStatus(port uint32, all []Counter) List {
	var table List
	for i, c := range all {
		var item List
		item.text(attrHWCounterName, c.Name)
		item.u32(attrHWCounterIndex, uint32(i))
		table.flagged(attrHWCounter, item)
	}
	l := d.portHandle(port)
	l.flagged(attrHWCounters, table)
	return l
}

// CounterMode returns what STAT_GET answers about the mode of counters by queue pair.
func (d *Device) CounterMode(port uint32, mode uint32) List {
	l := d.portHandle(port)
	l.u32(AttrStatMode, mode)
	return l
}

// CountedMR returns the entry of a memory region in a dump of STAT_GET.
func CountedMR(id uint32) (l List) {
	l.u32(AttrResMRN, id)
	return l
}
