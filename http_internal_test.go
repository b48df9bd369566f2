package lw

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/request"
)

// A fuse is a field whose own method panics.
type fuse struct{}

func (fuse) MarshalJSON() ([]byte, error) { return []byte(`"blown"`), nil }

func (*fuse) UnmarshalJSON([]byte) error { panic("blown") }

// fused is an object with a fuse.
type fused struct {
	metav1.ObjectMeta `json:"metadata"`
	Fuse              *fuse `json:"fuse,omitempty"`
}

// A decoder that a panic has ended is not used again: nobody knows what state it is in.
func TestDecoderThatPanicked(t *testing.T) {
	h := &HTTP[*fused]{URL: "https://example.com/apis/example.com/v1/fused"}
	obj := &fused{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	told := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errors.New(p.(string))
			}
		}()
		_, _, err = h.Told(obj)
		return err
	}
	if err := told(); err != nil || h.teller == nil {
		t.Fatalf("error %v, decoder %p", err, h.teller)
	}
	obj.Fuse = new(fuse)
	if err := told(); err == nil || h.teller != nil {
		t.Errorf("error %v, decoder %p; want a panic, and none", err, h.teller)
	}
}

// A torn is a field that can be read, and not be written; or written, and not be read.
type torn struct{ write bool }

func (x torn) MarshalJSON() ([]byte, error) {
	if !x.write {
		return nil, errors.New("cannot be written")
	}
	return []byte(`"x"`), nil
}

func (*torn) UnmarshalJSON([]byte) error { return errors.New("cannot be read") }

// tearable is an object with a torn.
type tearable struct {
	metav1.ObjectMeta `json:"metadata"`
	Torn              *torn `json:"torn,omitempty"`
}

// What comes without bytes is packed if it can be written, and read again. Else that is an error,
// and no panic of whoever opens it.
func TestPackWithoutBytes(t *testing.T) {
	src := Pack(&HTTP[*tearable]{URL: "https://example.com/apis/example.com/v1/tearables"}, PackOptions{})
	pk := src.(*packSource[*tearable]).pk
	for _, c := range []struct {
		torn *torn
		want string
	}{{nil, ""}, {&torn{}, "cannot be written"}, {&torn{write: true}, "cannot be read"}} {
		obj := &tearable{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "5"}, Torn: c.torn}
		p, err := pk.pack(obj, &request.Raw{}, nil, false)
		if c.want == "" {
			if err != nil || p.Open().UID != "u" || p.GetResourceVersion() != "5" || p.how != pk.packing(nil) {
				t.Errorf("packed %v, error %v", p, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Key != KeyOf(obj) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
