package decode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// The memory of an item that is as it was is used for the next object, and for one only. Nothing of
// the item is left in it.
func TestSpareObject(t *testing.T) {
	for form, encode := range carpForms {
		d, _, old := newCarpLender(t, form, Options{})
		d.listing = true
		var got, want []*carp.Carp
		for range 3 {
			// No part comes in bare. One that came would be found in the notes, and decoded into new
			// memory.
			bare := []byte(`{"metadata":{"name":"bare"}}`)
			if form == "protobuf" {
				meta := mustMarshal(t, &metav1.ObjectMeta{Name: "bare"})
				bare = append([]byte{0x0a, byte(len(meta))}, meta...)
			}
			for _, data := range [][]byte{encode(t, newCarp(1)), bare, encode(t, newCarp(2))} {
				g, w := decodeCarp(t, d, form, data)
				got, want = append(got, g), append(want, w)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
		for i, c := range got {
			if i%3 == 0 != (c == old) {
				t.Errorf("%s: object %d is that of the store: %v", form, i, c == old)
			}
		}
		if d.releaseStream(); d.spare.addr != nil {
			t.Errorf("%s: the decoder keeps memory after the stream", form)
		}
	}
}

// An item that is as it was needs no memory for an object, as an event does.
func TestUnchangedItemAllocates(t *testing.T) {
	for form, encode := range carpForms {
		d, _, _ := newCarpLender(t, form, Options{})
		data := encode(t, newCarp(1))
		allocations := func(listing bool) float64 {
			d.listing = listing
			return testing.AllocsPerRun(100, func() {
				if _, err := decodeAs(d, form, data); err != nil {
					t.Fatal(err)
				}
			})
		}
		if event, item := allocations(false), allocations(true); item > event-1 {
			t.Errorf("%s: %v allocations for an unchanged item, %v for an event", form, item, event)
		}
	}
}
