package board

import (
	"strconv"
	"strings"
	"time"
)

// number writes n with commas.
func number[N int | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// count writes n and what it is a number of. The plural has an s.
func count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

// span writes d with its two largest units, and without a fraction from a second on.
func span(d time.Duration) string {
	units := []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.unit {
			continue
		}
		text := strconv.FormatInt(int64(d/u.unit), 10) + " " + u.name
		if i+1 < len(units) {
			if next := units[i+1]; d%u.unit/next.unit > 0 {
				text += " " + strconv.FormatInt(int64(d%u.unit/next.unit), 10) + " " + next.name
			}
		}
		return text
	}
	switch {
	case d >= time.Millisecond:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d > 0:
		return strconv.FormatInt(max(1, d.Microseconds()), 10) + " µs"
	}
	return "0 s"
}

// size writes a number of bytes with three digits or less.
func size(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + " B"
	}
	value := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if value /= 1024; value < 1000 || unit == "GiB" {
			precision := 0
			if value < 9.95 {
				precision = 1
			}
			return strconv.FormatFloat(value, 'f', precision, 64) + " " + unit
		}
	}
	return ""
}
