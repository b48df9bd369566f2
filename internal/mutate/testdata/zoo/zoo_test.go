package zoo

import "testing"

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
