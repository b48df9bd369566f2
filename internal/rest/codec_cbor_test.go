package rest

import (
	"testing"
)

// CBOR is asked for only where Accept names it. For metadata, the parameters of the request are
// added, which no header of a user's has for both a list and a watch.
func TestAcceptCBOR(t *testing.T) {
	const (
		list  = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		watch = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	c := answering(t, nil)
	for _, tt := range []struct{ accept, list, watch string }{
		{"application/cbor,application/json", "application/cbor" + list + ",application/json" + list + ",application/json", "application/cbor" + watch + ",application/json" + watch + ",application/json"},
		{"application/cbor", "application/cbor" + list, "application/cbor" + watch},
		{"application/cbor;q=0.5, application/cbor", "application/cbor;q=0.5,application/cbor" + list, "application/cbor;q=0.5,application/cbor" + watch},
		{"application/cbor;q=0.5,application/json", "application/cbor;q=0.5,application/json", "application/cbor;q=0.5,application/json"},
		{"application/json", "application/json", "application/json"},
		{"application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf,application/json"},
	} {
		c.Accept, c.Metadata = tt.accept, true
		if got := c.accept(false); got != tt.list {
			t.Errorf("a list asks for %q, want %q", got, tt.list)
		}
		if got := c.accept(true); got != tt.watch {
			t.Errorf("a watch asks for %q, want %q", got, tt.watch)
		}
		c.Metadata = false
		if got := c.accept(true); got != tt.accept {
			t.Errorf("a watch of whole objects asks for %q, want %q", got, tt.accept)
		}
	}
}

// The first bytes of a body tell what it is, whatever the order of its members.
func TestBeginsCBOR(t *testing.T) {
	for data, want := range map[string]struct {
		kind  string
		event bool
	}{
		"\xd9\xd9\xf7\xa2\x44kind\x43Pod\x48metadata\xa0": {"Pod", false},
		"\xd9\xd9\xf7\xa2\x48metadata\xa0\x44kind\x43Pod": {"Pod", false},
		"\xa2\x44kind\x43Pod\x48metadata\xa2":             {"Pod", false},
		"\xa2\x45items\x81\xa1\x44kind\x43Pod":            {"", false},
		"\xa2\x46object\xa0\x44type\x45ADDED":             {"", true},
		"\xa2\x44type\x45ADDED":                           {"", true},
		"\xa1\x44ki":                                      {"", false},
		"\x01":                                            {"", false},
		"<html>":                                          {"", false},
		"":                                                {"", false},
	} {
		if kind, event := beginsCBOR([]byte(data)); kind != want.kind || event != want.event {
			t.Errorf("%q: %q, %v", data, kind, event)
		}
	}
}
