package zoo

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestClamp(t *testing.T) {
	if Clamp(1, 2) != 1 || Clamp(3, 2) != 2 {
		t.Error("Clamp")
	}
}

func TestCount(t *testing.T) {
	if Count([]string{"a", "b", "a"}, "a") != 2 || Count(nil, 1) != 0 {
		t.Error("Count")
	}
}

func TestEdge(t *testing.T) {
	if Edge() != 255 {
		t.Error("Edge")
	}
}

func TestBit(t *testing.T) {
	for i := range 64 {
		if b := Bit(i + 64); b>>i != 1 {
			t.Errorf("bit %d: %x", i, b)
		}
	}
}

func TestSorted(t *testing.T) {
	list := []string{"b", "a"}
	if got := Sorted(list); !slices.Equal(got, []string{"a", "b"}) || list[0] != "b" {
		t.Error("Sorted")
	}
}

func TestQueue(t *testing.T) {
	q := NewQueue(3)
	q.Put("a")
	q.Put("b")
	if q.first != 3 || q.last != 5 || q.items[3] != "a" || q.items[4] != "b" {
		t.Error("Queue")
	}
}

func TestDigits(t *testing.T) {
	n := 3
	if Digits(func() int { n++; return n }) != 45 {
		t.Error("Digits")
	}
}

func TestNames(t *testing.T) {
	why, b := "", []byte("ab")
	s := Names(b, &why)
	b[0] = 'x'
	if s != "ab" || why != "" || Names(nil, &why) != "none" || why != "empty" {
		t.Error("Names")
	}
}

func TestTwice(t *testing.T) {
	var order string
	Twice(func() { order += "f" }, func() { order += "g" })
	if order != "gf" {
		t.Error("Twice")
	}
}

func TestSpan(t *testing.T) {
	s := &Span{From: 1, To: 5}
	if m := s.Moved(2); *m != (Span{From: 3, To: 5}) || *s != (Span{From: 1, To: 5}) {
		t.Error("Moved")
	}
	var log strings.Builder
	if Parse("3", "4", nil) != (Span{From: 3, To: 4}) || Parse("", "3", slog.New(slog.DiscardHandler)) != (Span{From: -1, To: 3}) ||
		Parse("", "", slog.New(slog.NewTextHandler(&log, nil))) != (Span{From: -2, To: -2}) || log.Len() == 0 {
		t.Error("Parse")
	}
}
