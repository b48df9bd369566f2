package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Unit is the unit of a line's values.
type Unit string

// The units. Durations are in nanoseconds and sizes in bytes; they are printed with a prefix.
const (
	Nanoseconds Unit = "ns"
	Bytes       Unit = "B"
	Count       Unit = "count"
	PerSecond   Unit = "1/s"
	Ratio       Unit = "x" // a value that is itself a ratio
)

// ratio returns how many times better side is than base: a rate is better if it is higher, all else
// if it is lower.
func (u Unit) ratio(base, side float64) float64 {
	if u == PerSecond {
		return side / base
	}
	return base / side
}

func (u Unit) format(v float64) string {
	switch u {
	case Nanoseconds:
		return scaled(v, 1000, "ns", "µs", "ms", "s")
	case Bytes:
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB")
	case PerSecond:
		return scaled(v, 1000, "/s", "k/s", "M/s", "G/s")
	case Ratio:
		return number(v) + "x"
	}
	return number(v)
}

// scaled formats v with the largest of units that leaves it at least 1. step is the factor between
// two units.
func scaled(v, step float64, units ...string) string {
	for math.Abs(v) >= step && len(units) > 1 {
		v, units = v/step, units[1:]
	}
	return number(v) + " " + units[0]
}

// number formats v with about three digits. More would be noise.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0):
		return "∞"
	case math.IsNaN(v):
		return "-"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trim(fmt.Sprintf("%.1f", v))
	case a >= 0.1 || a == 0:
		return trim(fmt.Sprintf("%.2f", v))
	default:
		return trim(fmt.Sprintf("%.4f", v))
	}
}

func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }
