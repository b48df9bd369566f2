package lw

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
