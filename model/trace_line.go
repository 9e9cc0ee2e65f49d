package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// parseHeader reads the first line of a trace.
func parseHeader(line []byte) (map[string]Structure, error) {
	regions := map[string]Structure{}
	err := parseObject(line, []field{
		{"trace", true, exactly(strconv.Quote(traceName))},
		{"version", true, exactly(strconv.Itoa(traceVersion))},
		{"line", true, exactly(strconv.Itoa(LineSize))},
		{"regions", true, func(value []byte) error { return parseRegions(value, regions) }},
	})
	return regions, err
}

func parseRegions(value []byte, regions map[string]Structure) error {
	return eachKey(value, func(key string, value []byte) error {
		if err := checkRegion(key, len(regions)); err != nil {
			return err
		}
		var is Structure
		if err := parseObject(value, []field{{"is", true, name(&is, structureNames)}}); err != nil {
			return fmt.Errorf("region %q: %w", key, err)
		}
		regions[key] = is
		return nil
	}, func(map[string]bool) error { return nil })
}

// checkRegion returns an error if a region of that name cannot be added to others.
func checkRegion(name string, others int) error {
	odd := func(r rune) bool {
		letter := ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z')
		digit := '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune("._-", r)
	}
	if len(name) < 1 || len(name) > maxRegionName || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("the region's name %s does not have 1..%d letters, digits, dots, hyphens and underscores", Shorten(name), maxRegionName)
	}
	if others == maxRegions {
		return fmt.Errorf("there are more than %d regions", maxRegions)
	}
	return nil
}

// appendHeader appends the first line of a trace.
func appendHeader(b []byte, regions map[string]Structure) ([]byte, error) {
	b = fmt.Appendf(b, `{"trace":%q,"version":%d,"line":%d,"regions":{`, traceName, traceVersion, LineSize)
	for i, region := range slices.Sorted(maps.Keys(regions)) {
		if err := checkRegion(region, i); err != nil {
			return nil, err
		}
		if is := regions[region]; is >= Structures {
			return nil, fmt.Errorf("region %q: structure %d does not exist", region, is)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%q:{"is":%q}`, region, regions[region])
	}
	return append(b, "}}\n"...), nil
}

// parseAccess reads one line of a trace after the first.
func parseAccess(line []byte) (a Access, err error) {
	a.N = 1
	var lineKeys []string
	is := func(key string, must bool, read func([]byte) error) field {
		return field{key, must, read}
	}
	ofLine := func(key string, read func([]byte) error) field {
		return field{key, false, func(value []byte) error {
			lineKeys = append(lineKeys, key)
			return read(value)
		}}
	}
	err = parseObject(line, []field{
		is("seq", true, number(&a.Seq, maxNumber)),
		is("who", true, name(&a.Who, agentNames)),
		is("op", true, name(&a.Op, opNames)),
		ofLine("kind", name(&a.Kind, kindNames)),
		ofLine("line", func(value []byte) error { return a.Line.parse(value) }),
		ofLine("n", number(&a.N, maxTouched)),
		ofLine("bytes", number(&a.Bytes, maxTouched*LineSize)),
		ofLine("why", name(&a.Why, whyNames)),
		is("after", false, numbers(&a.After, maxNumber, maxAfter)),
		is("req", false, number(&a.Req, maxNumber)),
	})
	if err != nil {
		return a, err
	}
	if a.Op == Work {
		if len(lineKeys) > 0 {
			return a, keyErrorf(lineKeys[0], "does not belong to work, which touches no line")
		}
		return a, nil
	}
	for _, key := range []string{"kind", "line", "why"} {
		if !slices.Contains(lineKeys, key) {
			return a, keyErrorf(key, "is missing")
		}
	}
	return a, nil
}

// parse reads a line as it stands in a trace.
func (l *Line) parse(value []byte) error {
	s, err := text(value)
	if err != nil {
		return err
	}
	*l, err = ParseLine(s)
	if err != nil {
		return fmt.Errorf("%s is not a region, a colon and an index of 0..%d", Shorten(s), maxIndex)
	}
	if l.String() != s {
		return fmt.Errorf("%s has an index with a sign or leading zeros", Shorten(s))
	}
	return nil
}

// appendAccess appends an access that has been checked, as a line of the file.
func appendAccess(b []byte, a *Access) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, int64(a.Seq), 10)
	b = append(b, `,"who":"`+a.Who.String()+`","op":"`+a.Op.String()+`"`...)
	number := func(key string, v, missing int) {
		if v != missing {
			b = append(b, `,"`+key+`":`...)
			b = strconv.AppendInt(b, int64(v), 10)
		}
	}
	if a.Op != Work {
		b = append(b, `,"kind":"`+a.Kind.String()+`","line":"`+a.Line.String()+`"`...)
		number("n", a.N, 1)
		number("bytes", a.Bytes, 0)
		b = append(b, `,"why":"`+a.Why.String()+`"`...)
	}
	for i, s := range a.After {
		if i == 0 {
			b = append(b, `,"after":[`...)
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s), 10)
	}
	if len(a.After) > 0 {
		b = append(b, ']')
	}
	number("req", a.Req, 0)
	return append(b, "}\n"...)
}
