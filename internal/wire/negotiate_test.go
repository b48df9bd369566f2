package wire_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/internal/wire"
)

const (
	typeJSON  = "application/json"
	typeProto = "application/vnd.kubernetes.protobuf"
	typeCBOR  = "application/cbor"

	asPartial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asList    = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asTable   = ";as=Table;v=v1;g=meta.k8s.io"
)

// builtIn has what a built-in resource has, and custom what one of a definition has.
func builtIn(f wire.Format) bool { return f.Shape != wire.Table || f.Encoding == wire.JSON }
func custom(f wire.Format) bool {
	return builtIn(f) && f != wire.Format{Encoding: wire.Protobuf}
}

func TestNegotiate(t *testing.T) {
	json, proto, cbor := wire.Format{}, wire.Format{Encoding: wire.Protobuf}, wire.Format{Encoding: wire.CBOR}
	partial := func(f wire.Format) wire.Format { f.Shape = wire.Partial; return f }
	table := wire.Format{Shape: wire.Table}
	for _, tt := range []struct {
		accept string
		want   wire.Want
		custom bool
		format wire.Format
		refuse bool
	}{
		{accept: "", format: json},
		{accept: "*/*", format: json},
		{accept: "*", format: json},
		{accept: "application/*", format: json},
		{accept: typeProto, format: proto},
		{accept: " " + typeProto + " ; charset=utf-8 , " + typeJSON, format: proto},
		{accept: typeCBOR, format: cbor},
		{accept: typeProto, custom: true, refuse: true},
		{accept: typeProto + "," + typeJSON, custom: true, format: json},
		{accept: typeProto + ",*/*", custom: true, format: json},
		{accept: "application/yaml", refuse: true},
		{accept: "text/html,application/xhtml+xml,*/*;q=0.8", format: json},
		{accept: ",,;q=1,a/b/c", refuse: true},
		{accept: "*/json", refuse: true},
		{accept: typeJSON + "/x," + typeProto, format: proto},
		{accept: typeJSON + "/," + typeProto, format: json},

		{accept: typeJSON + ";q=0.5," + typeProto, format: proto},
		{accept: typeJSON + ";q=0.5," + typeProto + ";q=0.4", format: json},
		{accept: "*/*," + typeProto, format: proto},
		{accept: "application/*," + typeProto, format: proto},
		{accept: "application/*" + asPartial + ",application/*", format: partial(json)},
		{accept: "*/*" + asPartial + ",*/*", format: partial(json)},
		{accept: typeJSON + ";q=x," + typeProto + ";q=0.1", format: proto},

		{accept: typeProto + ";stream=watch", want: wire.WantWatch, format: proto},
		{accept: typeProto + ";stream=other," + typeJSON, want: wire.WantWatch, format: json},
		{accept: typeProto + ";sv=v2," + typeJSON, format: json},

		{accept: typeProto + asPartial, format: partial(proto)},
		{accept: typeProto + asPartial, custom: true, format: partial(proto)},
		{accept: typeCBOR + asPartial, want: wire.WantWatch, format: partial(cbor)},
		{accept: typeJSON + asList, want: wire.WantList, format: partial(json)},
		{accept: typeJSON + asPartial + "," + typeJSON, want: wire.WantList, refuse: true},
		{accept: typeJSON + asList + "," + typeJSON, want: wire.WantObject, refuse: true},
		{accept: typeJSON + asList + "," + typeJSON, want: wire.WantStatus, format: json},
		{accept: typeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1," + typeProto, format: proto},
		{accept: typeJSON + ";as=PartialObjectMetadata," + typeProto, format: proto},
		{accept: typeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1==," + typeProto, format: proto},
		{accept: typeJSON + ";v=v1," + typeProto, format: proto},
		{accept: typeJSON + ";as=Table;g=other;v=v1," + typeProto, format: proto},
		{accept: typeJSON + ";q=0.1==," + typeProto + ";q=0.5", format: json},

		{accept: typeJSON + asTable + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io," + typeJSON, want: wire.WantList, format: table},
		{accept: typeJSON + asTable + "," + typeJSON, want: wire.WantWatch, format: table},
		{accept: typeProto + asTable + "," + typeProto, format: proto},
		{accept: "*/*" + asTable, format: table},
		{accept: "*/*" + asTable + ",application/*", format: json}, // what is named is preferred
	} {
		has := builtIn
		if tt.custom {
			has = custom
		}
		got, err := wire.Negotiate(tt.accept, tt.want, has)
		if tt.refuse {
			if got != json || !apierrors.IsNotAcceptable(err) || err.(apierrors.APIStatus).Status().Code != http.StatusNotAcceptable {
				t.Errorf("%q for %d: %+v, %v; want 406 in JSON", tt.accept, tt.want, got, err)
			}
			continue
		}
		if diff := cmp.Diff(tt.format, got); err != nil || diff != "" {
			t.Errorf("%q for %d: %v (-want +got):\n%s", tt.accept, tt.want, err, diff)
		}
	}
	_, err := wire.Negotiate("text/plain", wire.WantList, custom)
	if want := "only the following media types are accepted: application/json, application/cbor"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Who passes on what he cannot decode may have nothing in JSON. A client that does not say what it
// accepts then gets what there is.
func TestNegotiateWithoutJSON(t *testing.T) {
	proto := wire.Format{Encoding: wire.Protobuf}
	for _, tt := range []struct {
		accept string
		refuse bool
	}{{"", false}, {"*/*", false}, {typeProto, false}, {typeJSON, true}, {typeCBOR, true}, {typeJSON + "," + typeProto, false}} {
		got, err := wire.Negotiate(tt.accept, wire.WantList, func(f wire.Format) bool { return f == proto })
		if want := "only the following media types are accepted: " + typeProto; tt.refuse && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %s", tt.accept, err, want)
		} else if !tt.refuse && (err != nil || got != proto) {
			t.Errorf("%q: %v %v", tt.accept, got, err)
		}
	}
}

func TestContentType(t *testing.T) {
	for f, want := range map[wire.Format][2]string{
		{}:                        {typeJSON, typeJSON},
		{Shape: wire.Table}:       {typeJSON, typeJSON},
		{Encoding: wire.Protobuf}: {typeProto, typeProto + ";stream=watch"},
		{Encoding: wire.CBOR}:     {typeCBOR, "application/cbor-seq"},
	} {
		rig.Same(t, fmt.Sprintf("%+v", f), want, [2]string{f.ContentType(false), f.ContentType(true)})
	}
	seen := map[int]bool{}
	for e := wire.JSON; e <= wire.CBOR; e++ {
		for s := wire.Full; s <= wire.Table; s++ {
			seen[wire.Format{Encoding: e, Shape: s}.Index()] = true
		}
	}
	for i := range wire.Formats {
		if !seen[i] {
			t.Errorf("no format has the index %d: %v", i, seen)
		}
	}
	f := wire.Format{Encoding: wire.CBOR, Shape: wire.Partial}
	if got := wire.NewCodec(f, podKind, nil).Format(); got != f {
		t.Errorf("the codec of %+v has the format %+v", f, got)
	}
}

// FuzzNegotiate checks that whatever is in the header, the answer is a format that the resource has
// or a refusal in JSON, and that a client gets this format as well if it asks for nothing else.
func FuzzNegotiate(f *testing.F) {
	for _, accept := range []string{
		"", "*/*", typeProto + "," + typeJSON, typeJSON + asTable + ";q=0.3", typeCBOR + asList + ",*/*;q=0.9," + typeJSON + ";q=0.1",
		"application/*;stream=watch;sv=v1;as=Table", "a/b/,*/;q=,;=,/", typeProto + ";q=NaN," + typeJSON + ";q=-Inf",
	} {
		f.Add(accept, uint8(wire.WantList))
	}
	f.Fuzz(func(t *testing.T, accept string, w uint8) {
		want := wire.Want(w % 4)
		for _, has := range []func(wire.Format) bool{builtIn, custom} {
			got, err := wire.Negotiate(accept, want, has)
			if err != nil {
				if !apierrors.IsNotAcceptable(err) || got != (wire.Format{}) {
					t.Fatalf("%q: %+v, %v", accept, got, err)
				}
				continue
			}
			if !has(got) || got.Shape != wire.Full && want == wire.WantStatus {
				t.Fatalf("%q: %+v, which it does not have", accept, got)
			}
			if accept == "" {
				continue
			}
			first := got.ContentType(want == wire.WantWatch)
			if got.Encoding == wire.CBOR {
				first = typeCBOR // a request for a stream has this type, too
			}
			switch {
			case got.Shape == wire.Table:
				first += asTable
			case got.Shape == wire.Partial && want == wire.WantList:
				first += asList
			case got.Shape == wire.Partial:
				first += asPartial
			}
			if again, err := wire.Negotiate(first, want, has); err != nil || again != got {
				t.Fatalf("%q gives %+v, but %q gives %+v, %v", accept, got, first, again, err)
			}
		}
	})
}

func TestAcceptsGzip(t *testing.T) {
	for accept, want := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzipped": false, "identity": false} {
		if got := wire.AcceptsGzip(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
}
