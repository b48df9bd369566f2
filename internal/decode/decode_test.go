package decode

import (
	"errors"
	"strings"
	"testing"
)

// An error of yield ends a list and a watch, and is returned as it is.
func TestYieldEnds(t *testing.T) {
	stop := errors.New("enough")
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	d := newDecoder[*sink](t, Options{})
	for name, read := range map[string]func(n int) error{
		"list": func(n int) error {
			_, err := d.List(strings.NewReader(`{"kind":"SinkList","items":[`+sinkA+","+sinkA+","+sinkA+`]}`), JSON, func(Object) error { return countdown(&n, stop) })
			return err
		},
		"watch": func(n int) error {
			return d.Watch(strings.NewReader(event+event+event), JSON, func(Event) error { return countdown(&n, stop) })
		},
	} {
		for n := range 4 {
			if err := read(n); !errors.Is(err, stop) && n < 3 || err != nil && n == 3 {
				t.Errorf("%s, ended at %d: %v", name, n, err)
			}
		}
	}
}

func countdown(n *int, err error) error {
	if *n == 0 {
		return err
	}
	*n--
	return nil
}
