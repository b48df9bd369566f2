package board

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567",
		math.MaxUint64: "18,446,744,073,709,551,615",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 objects", 1: "1 object", 1200: "1,200 objects"} {
		if got := count(n, "object"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", -time.Second: "0 s", 1: "1 µs", 1500: "1 µs", 999 * time.Microsecond: "999 µs",
		time.Millisecond: "1 ms", 999*time.Millisecond + 999*time.Microsecond: "999 ms",
		time.Second: "1 s", 59*time.Second + 900*time.Millisecond: "59 s", time.Minute: "1 min",
		3*time.Minute + 6*time.Second: "3 min 6 s", time.Hour: "1 h", time.Hour + 59*time.Second: "1 h",
		25*time.Hour + time.Minute: "1 d 1 h", 24*time.Hour + 30*time.Minute: "1 d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 999 << 10: "999 KiB", 1000 << 10: "1.0 MiB",
		61<<20 + 1<<19: "62 MiB", 512 << 20: "512 MiB", 3 << 30: "3.0 GiB", 4000 << 30: "4000 GiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 186*time.Second + 200*time.Millisecond: "186.2", 1499 * time.Microsecond: "0.001499", 50 * time.Microsecond: "0.00005", 999: "0", 48 * time.Hour: "172800",
	} {
		got, err := json.Marshal(Seconds(d))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v, want %s", d, got, err, want)
		}
	}
}
