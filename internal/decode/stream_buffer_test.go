package decode

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLimit(t *testing.T) {
	big := `{"metadata":{"name":"` + strings.Repeat("x", 3000) + `"}}`
	d := newDecoder[*sink](t, Options{Limit: 2000})
	for name, g := range map[string]reading{
		"an item":  readList(d, strings.NewReader(`{"kind":"SinkList","items":[`+sinkA+`,`+big+`]}`), JSON),
		"an event": readWatch(d, strings.NewReader(`{"type":"ADDED","object":`+sinkA+`}{"type":"ADDED","object":`+big+`}`), JSON),
	} {
		if len(g.objects) != 1 || !strings.HasPrefix(g.end, "more than 2000 bytes in one piece at byte") {
			t.Errorf("%s: %d objects, error %s", name, len(g.objects), g.end)
		}
	}
	many := `{"kind":"SinkList","items":[` + strings.Repeat(sinkA+",", 99) + sinkA + `]}`
	if g := readList(d, strings.NewReader(many), JSON); len(g.objects) != 100 || g.end != "<nil>" {
		t.Errorf("%d small objects, error %s", len(g.objects), g.end)
	}
}

func TestBufferShrinks(t *testing.T) {
	event := func(n int) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"str":"%s"}}}`, strings.Repeat("x", n))
	}
	d := newDecoder[*sink](t, Options{})
	r, w := io.Pipe()
	go func() {
		for _, n := range []int{4 << 20, 10, 10} {
			_, _ = io.WriteString(w, event(n))
		}
		w.Close()
	}()
	var caps []int
	err := d.Watch(r, JSON, func(Event) error {
		caps = append(caps, cap(d.buf.data))
		return nil
	})
	if err != nil || len(caps) != 3 || caps[0] < 4<<20 || caps[2] > maxKeptBuffer {
		t.Errorf("error %v, capacities %v", err, caps)
	}
}

func TestReadErrors(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	broken := errors.New("broken")
	for n := range len(sinkA) {
		data := `{"kind":"SinkList","items":[` + sinkA[:n]
		_, err := d.List(io.MultiReader(strings.NewReader(data), iotest.ErrReader(broken)), JSON, func(Object) error { return nil })
		if want := fmt.Sprintf("cut off at byte %d: broken", len(data)); !errors.Is(err, broken) || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
	g := readWatch(d, strings.NewReader(strings.Repeat(" ", 100)), JSON)
	if g.end != "<nil>" {
		t.Errorf("white space alone: %s", g.end)
	}
	err := d.Watch(onlyZero{}, JSON, func(Event) error { return nil })
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}

type onlyZero struct{}

func (onlyZero) Read([]byte) (int, error) { return 0, nil }
