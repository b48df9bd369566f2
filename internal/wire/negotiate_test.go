package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
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

		{accept: typeJSON + asTable + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io," + typeJSON, want: wire.WantList,
			format: table},
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
			if got != json || !apierrors.IsNotAcceptable(err) ||
				err.(apierrors.APIStatus).Status().Code != http.StatusNotAcceptable {
				t.Errorf("%q for %d: %+v, %v; want 406 in JSON", tt.accept, tt.want, got, err)
			}
			continue
		}
		rig.OK(t, err)
		rig.Same(t, fmt.Sprintf("%q for %d", tt.accept, tt.want), tt.format, got)
	}
	_, err := wire.Negotiate("text/plain", wire.WantList, custom)
	if want := "only the following media types are accepted: application/json, application/cbor"; err == nil ||
		err.Error() != want {
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
	}{{"", false}, {"*/*", false}, {typeProto, false}, {typeJSON, true}, {typeCBOR, true},
		{typeJSON + "," + typeProto, false}} {
		got, err := wire.Negotiate(tt.accept, wire.WantList, func(f wire.Format) bool { return f == proto })
		if want := "only the following media types are accepted: " + typeProto; tt.refuse &&
			(err == nil || err.Error() != want) {
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
		"", "*/*", typeProto + "," + typeJSON, typeJSON + asTable + ";q=0.3", typeCBOR + asList + ",*/*;q=0.9," +
			typeJSON + ";q=0.1",
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
	for accept, want := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzipped": false,
		"identity": false} {
		if got := wire.AcceptsGzip(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int32
		want metav1.StatusReason
	}{
		{errors.New("x"), 500, metav1.StatusReasonInternalError},
		{fmt.Errorf("wrapped: %w", apierrors.NewBadRequest("x")), 400, metav1.StatusReasonBadRequest},
		{&apierrors.StatusError{}, 500, ""},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusSuccess, Code: 200}}, 200, ""},
	} {
		got, status := wire.Status(tt.err), metav1.StatusFailure
		if tt.code == 200 {
			status = metav1.StatusSuccess // a Status stays what it says
		}
		kind := metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		if got.Code != tt.code || got.Reason != tt.want || got.TypeMeta != kind || got.Status != status {
			t.Errorf("Status(%v) = %+v, want %d %s", tt.err, got, tt.code, tt.want)
		}
	}
}

// TestWriteStatus reads an answer with apimachinery's decoders.
func TestWriteStatus(t *testing.T) {
	want := wire.Status(listopts.TooLarge(9, 5))
	for name, e := range encodings {
		w := httptest.NewRecorder()
		f := wire.Format{Encoding: e.Encoding, Shape: wire.Partial}
		wire.WriteStatus(w, f, want)
		header := http.Header{"Content-Type": {f.ContentType(false)}, "Content-Length": {strconv.Itoa(w.Body.Len())},
			"Cache-Control": {"no-cache, private"}, "Retry-After": {"1"}}
		if diff := cmp.Diff(header, w.Header()); diff != "" || w.Code != 504 {
			t.Errorf("%s: code %d, header (-want +got):\n%s", name, w.Code, diff)
		}
		// What marks the bytes as CBOR, of RFC 8949: a client may look for it.
		if marked := bytes.HasPrefix(w.Body.Bytes(), []byte("\xd9\xd9\xf7")); marked != (e.Encoding == wire.CBOR) {
			t.Errorf("%s: marked as CBOR: %t", name, marked)
		}
		got, kind, err := e.object.Decode(w.Body.Bytes(), nil, nil)
		rig.OK(t, err)
		got.GetObjectKind().SetGroupVersionKind(*kind)
		rig.Same[any](t, name, want, got)
	}
}

func TestParsePath(t *testing.T) {
	for path, want := range map[string]wire.Target{
		"/api/v1/pods":        {Version: "v1", Resource: "pods"},
		"/api/v1/pods/":       {Version: "v1", Resource: "pods"},
		"/apis/g/v2/things/a": {Group: "g", Version: "v2", Resource: "things", Name: "a"},
		"/api/v1/namespaces/n/pods/a/status": {Version: "v1", Resource: "pods", Namespaced: true, Namespace: "n", Name: "a",
			Subresource: "status"},
		"/api/v1/namespaces/n/pods/a/proxy/x/y": {
			Version: "v1", Resource: "pods", Namespaced: true, Namespace: "n", Name: "a", Subresource: "proxy", Longer: true,
		},
		"/api/v1/namespaces/n":            {Version: "v1", Resource: "namespaces", Name: "n"},
		"/api/v1/namespaces/n/status":     {Version: "v1", Resource: "namespaces", Name: "n", Subresource: "status"},
		"/api/v1/namespaces/n/finalize":   {Version: "v1", Resource: "namespaces", Name: "n", Subresource: "finalize"},
		"/api/v1/watch/namespaces/n/pods": {Version: "v1", Resource: "pods", Verb: "watch", Namespaced: true, Namespace: "n"},
		"/api/v1/proxy/pods/a/b":          {Version: "v1", Resource: "pods", Verb: "proxy", Name: "a"},
		"/api/v1/watch":                   {Version: "v1", Wrong: true},
		"/api//pods":                      {Resource: "pods", Wrong: true},
		"/apis//v1/pods":                  {Version: "v1", Resource: "pods", Wrong: true},
		"/api/v1/namespaces//pods":        {Version: "v1", Resource: "pods", Namespaced: true, Wrong: true},
	} {
		got, ok := wire.ParsePath(path)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%s: %t (-want +got):\n%s", path, ok, diff)
		}
	}
	for _, path := range []string{"", "/", "/api", "/api/v1", "/apis/g/v1", "/healthz/a/b", "/openapi/v3/apis/g"} {
		if got, ok := wire.ParsePath(path); ok {
			t.Errorf("%q is about %+v", path, got)
		}
	}
}

// The authorizer is asked about a namespace in itself, and about a namespaced resource in its own.
func TestAuthorizedNamespace(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/n": "n", "/api/v1/namespaces/n/pods": "n", "/api/v1/nodes/n": "",
		"/api/v1/namespaces/n/namespaces/m": "n",
	} {
		target, _ := wire.ParsePath(path)
		if got := target.AuthorizedNamespace(); got != want {
			t.Errorf("%s is asked about in %q, want %q", path, got, want)
		}
	}
}

func TestDotted(t *testing.T) {
	for path, want := range map[string]bool{"/a/../b": true, "/a/./b": true, "/..": true, "/a/.b/c..": false,
		"/a/...": false, "": false} {
		if got := wire.Dotted(path); got != want {
			t.Errorf("Dotted(%q) is %t", path, got)
		}
	}
}

func TestNameSuffix(t *testing.T) {
	a, b := wire.NameSuffix(), wire.NameSuffix()
	if len(a) != 5 || strings.ContainsAny(a+b, "aeiou013") || a == b && b == wire.NameSuffix() {
		t.Errorf("the suffixes are %q and %q", a, b)
	}
}
