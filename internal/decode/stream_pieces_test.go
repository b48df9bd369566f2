package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A piecewise is a stream that comes in the pieces that cut makes: of the bytes that are left, how
// many come next.
type piecewise struct {
	data []byte
	cut  func(data []byte) int
}

func (pw *piecewise) Read(p []byte) (int, error) {
	if len(pw.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, pw.data[:min(len(pw.data), pw.cut(pw.data))])
	pw.data = pw.data[n:]
	return n, nil
}

// Close lets a workerPool yield while a Read waits.
func (pw *piecewise) Close() error { return nil }

// before cuts before the next occurrence of s, or behind it if it is next.
func before(s string) func(data []byte) int {
	return func(data []byte) int {
		if n := bytes.Index(data, []byte(s)); n > 0 {
			return n
		}
		return len(s)
	}
}

// behind cuts behind the next occurrence of s.
func behind(s string) func(data []byte) int {
	return func(data []byte) int {
		if n := bytes.Index(data, []byte(s)); n >= 0 {
			return n + len(s)
		}
		return len(data)
	}
}

// cuts are ways in which events may come in pieces: a server may write them so, its HTTP, TLS and
// TCP may cut them, and a buffer may be full.
var cuts = map[string]func(data []byte) int{
	"all together":              func(data []byte) int { return len(data) },
	"one by one":                behind("\n"),
	"in two, the object first":  before("}\n"),
	"in two, the line first":    before("\n"),
	"in two, the type first":    before(`{"kind"`),
	"in pieces of 100 bytes":    func([]byte) int { return 100 },
	"in pieces of 1 KiB":        func([]byte) int { return 1 << 10 },
	"in pieces of 16 KiB":       func([]byte) int { return 16 << 10 },
	"cut behind each brace":     behind("}"),
	"cut behind two braces":     behind("}}"),
	"cut behind each space":     behind(" "),
	"cut behind each character": func([]byte) int { return 1 },
}

// Parts that may be shared are the same in whatever pieces an event comes.
func TestSharedInPieces(t *testing.T) {
	frames := podFrames(10)
	read := func(cut func([]byte) int) (got []any) {
		d := newDecoder[*pod](t, Options{Share: true})
		ok(t, d.Watch(&piecewise{frames, cut}, JSON, func(e Event) error {
			got = append(got, e.Object.Value)
			return e.Object.Err
		}))
		return got
	}
	want := read(cuts["all together"])
	for how, cut := range cuts {
		checkDiff(t, how, want, read(cut))
	}
}

// Each byte of an event is parsed once, in whatever pieces the event comes, and a second time to
// find its end if a pool decodes it and no line break shows that. What parsers do is counted by
// their ticks: one for each bracket, element and member. A decoder that has seen no event before
// has no guess that would save any.
func TestEventsAreParsedOnce(t *testing.T) {
	frames := podFrames(20)
	for name, newDecoder := range map[string]func(fataler, Options) *Decoder{
		"all": newDecoder[*pod], "a projection": newDecoder[*podPlace], "untyped": newDecoder[*unstructured.Unstructured],
	} {
		var once float64
		for frame := range bytes.Lines(frames) {
			d := newDecoder(t, Options{})
			must[Event](t)(d.decodeLine(frame, 0))
			once += float64(d.p.ticks)
		}
		for _, read := range watches {
			for _, workers := range []int{-1, 2} {
				limit := 1.2 * once
				if workers > 0 {
					limit += once
				}
				var want []any
				for _, how := range slices.Sorted(maps.Keys(cuts)) {
					d := newDecoder(t, Options{Workers: workers})
					// A parser asks at each tickEvery ticks whether to stop.
					var asked atomic.Int64
					d.StopWhen(func() error { asked.Add(1); return nil })
					var got []any
					ok(t, read(d, &piecewise{frames, cuts[how]}, JSON, func(e Event) error {
						got = append(got, e.Object.Value)
						return e.Object.Err
					}))
					if ticks := float64(asked.Load()) * tickEvery; ticks > limit {
						t.Errorf("%s, %d workers, %s: each byte is parsed %.2f times", name, workers, how, ticks/once)
					}
					if want == nil {
						want = got
					}
					if !reflect.DeepEqual(want, got) {
						t.Errorf("%s, %d workers, %s (-want +got):\n%s", name, workers, how, cmp.Diff(want, got))
					}
				}
			}
		}
	}
}

// A podPlace is what a projection takes of a pod.
type podPlace struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		PodIP string `json:"podIP"`
		Phase string `json:"phase"`
	} `json:"status"`
}

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
	var events []io.Reader
	for _, n := range []int{4 << 20, 10, 10} {
		event := `{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"str":"` + strings.Repeat("x", n) + `"}}}`
		events = append(events, strings.NewReader(event))
	}
	d := newDecoder[*sink](t, Options{})
	var caps []int
	err := d.Watch(io.MultiReader(events...), JSON, func(Event) error {
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
	if g := readWatch(d, strings.NewReader(strings.Repeat(" ", 100)), JSON); g.end != "<nil>" {
		t.Errorf("white space alone: %s", g.end)
	}
	nothing := readFunc(func([]byte) (int, error) { return 0, nil })
	if err := d.Watch(nothing, JSON, func(Event) error { return nil }); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}
