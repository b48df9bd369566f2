package http_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// FuzzContinue lists on from tokens that nobody handed out. Each is refused, or shows a part of one
// state, in order.
func FuzzContinue(f *testing.F) {
	m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2), rig.NewWidget("c", 3))
	states := map[string][]string{}
	note := func() {
		var state []string
		for w := range m.All() {
			state = append(state, w.Name+"@"+w.ResourceVersion)
		}
		states[m.ResourceVersion()] = state
	}
	note()
	m.Compact()
	for _, change := range []func() error{
		func() error { _, err := m.Delete(f.Context(), rig.Key("b"), ""); return err },
		func() error { _, err := m.Create(f.Context(), rig.NewWidget("d", 4)); return err },
		func() error { _, err := m.Update(f.Context(), rig.NewWidget("a", 5)); return err },
	} {
		if err := change(); err != nil {
			f.Fatal(err)
		}
		note()
	}
	for _, token := range []string{
		`{"v":"meta.k8s.io/v1","rv":5,"start":"default/b\u0000"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"default/a"}`,
		`{"v":"meta.k8s.io/v1","rv":2,"start":"default/a"}`, `{"v":"meta.k8s.io/v1","rv":99,"start":"x"}`,
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":-9,"start":"a"}`, `{"rv":5,"start":"a"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":""}`, `{"v":"meta.k8s.io/v1","rv":18446744073709551615,"start":"a"}`, `{`,
		`null`, ``,
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(token)), int64(2))
		f.Add(token, int64(0))
	}
	f.Fuzz(func(t *testing.T, token string, limit int64) {
		var got []string
		meta, err := m.List(t.Context(), metav1.ListOptions{Continue: token, Limit: limit},
			func(w *rig.Widget, err error) error {
				got = append(got, w.Name+"@"+w.ResourceVersion)
				return err
			})
		if err != nil {
			if !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) &&
				!apierrors.IsInvalid(err) {
				t.Errorf("continue %q: %v", token, err)
			}
			return
		}
		state, ok := states[meta.ResourceVersion]
		if !ok {
			t.Fatalf("continue %q is at %q", token, meta.ResourceVersion)
		}
		at := 0
		if len(got) > 0 {
			at = slices.Index(state, got[0])
		}
		if at < 0 || len(got) > len(state)-at || !slices.Equal(got, state[at:at+len(got)]) {
			t.Errorf("continue %q lists %v of %v", token, got, state)
		}
		if limit > 0 && int64(len(got)) > limit || meta.Continue == "" && len(got) > 0 && at+len(got) != len(state) {
			t.Errorf("continue %q, limit %d, lists %v of %v and goes on with %q", token, limit, got, state, meta.Continue)
		}
	})
}

// FuzzHTTPResponse reads whatever a server or a proxy may answer. Nothing panics; what is refused
// is an error, an API's where it is one; what is yielded can be kept.
func FuzzHTTPResponse(f *testing.F) {
	const list = `{"kind":"SprocketList","metadata":{"resourceVersion":"2"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}`
	const added = `{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}`
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
	for _, body := range []string{
		list, added, status, list[:60], added + added[:30], `{"type":"ERROR","object":` + status + `}`,
		"<html>502</html>", "",
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`, "null", "[]", `{"items":[null,7,{}]}`,
		"k8s\x00\x0a\x00",
	} {
		for _, code := range []int{200, 410, 429, 500} {
			f.Add(code, "application/json", "1", body)
		}
	}
	f.Add(200, "application/vnd.kubernetes.protobuf", "", "k8s\x00\x0a\x04\x0a\x02v1")
	f.Add(200, "application/cbor", "", cborOf(f, map[string]any{"kind": "SprocketList",
		"items": []any{map[string]any{"metadata": map[string]any{"name": "a"}}, 7}}))
	f.Add(200, "application/cbor-seq", "", "\xa2\x44type\x45ADDED\x46object\xf7")
	f.Add(410, "application/cbor", "1", cborOf(f, map[string]any{"kind": "Status", "reason": "Expired"}))
	f.Add(200, "text/html; charset=\"", "Fri, 31 Dec 1999 23:59:59 GMT", "")
	f.Add(503, "", "-5", "busy")
	f.Add(204, "application/json;as=Table", "99999999999999999999", list)
	f.Fuzz(func(t *testing.T, code int, contentType, retryAfter, body string) {
		if code < 200 || code > 999 {
			return // no client of net/http passes it on
		}
		src := &lw.HTTP[*rig.Sprocket]{URL: "http://apiserver/x",
			Client: &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: code, Status: http.StatusText(code), Request: r, Body: io.NopCloser(strings.NewReader(body)),
					Header: http.Header{"Content-Type": {contentType}, "Retry-After": {retryAfter}},
				}, nil
			})}}
		check := func(op string, err error) {
			t.Helper()
			var api apierrors.APIStatus
			switch {
			case code >= 300 && err == nil:
				t.Errorf("%s: a %d is no error", op, code)
			case err != nil && err.Error() == "":
				t.Errorf("%s: an error without words: %#v", op, err)
			case errors.As(err, &api) && api.Status().Code == 0:
				t.Errorf("%s: a status without a code: %v", op, err)
			}
		}
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(s *rig.Sprocket, err error) error {
			if err == nil && s.Name == "" || err != nil && s != nil {
				t.Errorf("List yields %+v, %v", s, err)
			}
			return nil
		})
		check("List", err)
		err = src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*rig.Sprocket]) error {
			switch {
			case ev.Type == watch.Error:
				t.Errorf("Watch yields an error as an event: %+v", ev)
			case ev.Type == watch.Bookmark && (ev.Object != nil || ev.Err != nil):
				t.Errorf("Watch yields a bookmark with an object: %+v", ev)
			case ev.Type != watch.Bookmark && (ev.Object == nil) == (ev.Err == nil):
				t.Errorf("Watch yields %+v", ev)
			case ev.Object != nil && ev.Object.Name == "": // one without a version is for the reflector to refuse
				t.Errorf("Watch yields what cannot be kept: %+v", ev)
			}
			return nil
		})
		check("Watch", err)
	})
}

// decimal is a resource version with an order (https://kep.k8s.io/5504).
var decimal = regexp.MustCompile(`^[1-9][0-9]*$`)

// FuzzVersions compares the order of resource versions, as a list with one object twice and a wait
// see it, with that of math/big.
func FuzzVersions(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "2"}, {"9", "10"}, {"10", "9"}, {"18446744073709551616", "18446744073709551615"},
		{"340282366920938463463374607431768211456", "99999999999999999999999999999999999999"},
		{"0", "1"}, {"01", "1"}, {"", "1"}, {"a", "b"}, {"-1", "1"}, {"1 ", "1"}, {"1_0", "9"}, {"١", "1"}, {"1e3", "2"},
		{"+5", "4"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := rig.Stamped("a", 1, a), rig.Stamped("a", 2, b)
		want := 2 // the last one, where there is no order or it is the same version
		if decimal.MatchString(a) && decimal.MatchString(b) && bigOf(a).Cmp(bigOf(b)) > 0 {
			want = 1
		}
		x := lw.NewIndexer[*rig.Widget]()
		x.Replace([]*rig.Widget{first, second}, "1")
		if got, ok := x.Get(rig.Key("a")); !ok || got.Size != want || x.Len() != 1 {
			t.Errorf("of %q and %q the store has %+v, want number %d", a, b, got, want)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil).WaitForResourceVersion(ctx, a)
		if err == nil || errors.Is(err, context.Canceled) != decimal.MatchString(a) || !strings.Contains(err.Error(),
			"Widget") {
			t.Errorf("a wait for %q: %v", a, err)
		}
	})
}

func bigOf(version string) *big.Int {
	v, ok := new(big.Int).SetString(version, 10)
	if !ok {
		panic(version)
	}
	return v
}
