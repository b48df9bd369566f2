package decode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// The memory of an item that is as it was is used for the next object, and for one only. Nothing of
// the item is left in it.
func TestSpareObject(t *testing.T) {
	for form, encode := range carpForms {
		d, store := newDecoder[*carp.Carp](t, Options{}), carpStore{}
		d.ReuseFrom(store.lend)
		d.listing = true
		old, _ := decodeCarp(t, d, form, encode(t, newCarp(1)))
		store.set(old)
		var got, want []*carp.Carp
		for range 3 {
			bare := &carp.Carp{}
			bare.Name, bare.Namespace, bare.ResourceVersion = old.Name, old.Namespace, "x"
			for _, c := range []*carp.Carp{newCarp(1), bare, newCarp(2)} {
				g, w := decodeCarp(t, d, form, encode(t, c))
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
		d, store := newDecoder[*carp.Carp](t, Options{}), carpStore{}
		d.ReuseFrom(store.lend)
		data := encode(t, newCarp(1))
		old, _ := decodeCarp(t, d, form, data)
		store.set(old)
		allocations := func(listing bool) float64 {
			d.listing = listing
			return testing.AllocsPerRun(100, func() {
				if form == "protobuf" {
					messageOf(d, data)
				} else if _, err := decodeOne(d, data); err != nil {
					t.Fatal(err)
				}
			})
		}
		if event, item := allocations(false), allocations(true); item > event-1 {
			t.Errorf("%s: %v allocations for an unchanged item, %v for an event", form, item, event)
		}
	}
}
