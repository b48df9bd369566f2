package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A part is a projection of whatever collection it is asked of: it has no TypeMeta.
type part struct {
	metav1.ObjectMeta `json:"metadata"`
}

// A talk is a server that answers lists and watches with what was last set; a watch stays open.
type talk struct {
	list, watch string
	asked       []string
	at          []time.Time
}

func (t *talk) client() *http.Client {
	return &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		what, body, rest := "list", t.list, io.Reader(strings.NewReader(""))
		if q := r.URL.Query(); q.Get("watch") != "" {
			what, body, rest = "watch", t.watch, untilDone{r.Context()}
			if q.Get("sendInitialEvents") != "" {
				what = "stream"
			}
		}
		t.asked, t.at = append(t.asked, what), append(t.at, time.Now())
		return &http.Response{
			StatusCode: 200, Status: "200 OK", Request: r, Header: rig.ContentType("application/json"),
			Body: io.NopCloser(io.MultiReader(strings.NewReader(body), rest)),
		}, nil
	})}
}

type untilDone struct{ context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

const (
	configMaps     = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"namespace":"ns","name":"c","resourceVersion":"5"}}]}`
	configMapAdded = `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"c","resourceVersion":"10"}}}` + "\n"
	wrongGadgets   = "want a list of Gadget (the kind of *rig.Gadget; set HTTP.Kind if it is called otherwise), got ConfigMapList"
)

// A URL of another collection is a request that fails, whose error says both kinds and the URL.
func TestHTTPKind(t *testing.T) {
	server := &talk{list: configMaps, watch: configMapAdded}
	//lint:ignore ST1008 The count belongs to both errors.
	read := func(t *testing.T, src lw.Source[*rig.Gadget]) (list, watch error, n int) {
		a, _, list := rig.ListAll(t.Context(), src, metav1.ListOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b, watch := watchAll(ctx, src, metav1.ListOptions{})
		return list, watch, len(a.What) + len(a.Errs) + len(b.What) + len(b.Errs)
	}
	synctest.Test(t, func(t *testing.T) {
		list, watch, n := read(t, &lw.HTTP[*rig.Gadget]{URL: "http://me:secret@server/configmaps?x=y",
			Client: server.client()})
		if want := "lw: HTTP: http://me:xxxxx@server/configmaps: " + wrongGadgets; list == nil || list.Error() != want {
			t.Errorf("list: error %v, want %s", list, want)
		}
		want := "lw: HTTP: http://me:xxxxx@server/configmaps: want Gadget (the kind of *rig.Gadget; set HTTP.Kind if it is called otherwise), got ConfigMap"
		if watch == nil || watch.Error() != want || n != 0 {
			t.Errorf("watch: error %v, want %s; %d objects and events", watch, want, n)
		}
		// What it is called is for its user to say.
		list, watch, n = read(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/configmaps", Client: server.client(),
			Kind: "ConfigMap"})
		if list != nil || !errors.Is(watch, context.DeadlineExceeded) || n != 2 {
			t.Errorf("of kind ConfigMap: errors %v, %v, %d objects and events", list, watch, n)
		}
	})
}

// A custom resource's list is called as its definition likes, also if it is empty, and in a probe.
func TestInformerOfAnotherListKind(t *testing.T) {
	const added = `{"type":"ADDED","object":{"kind":"Gadget","apiVersion":"g.example/v1","metadata":{"namespace":"ns","name":"b","resourceVersion":"10"}}}` + "\n"
	for _, name := range []string{"GadgetsList", "Gadgets"} {
		for _, item := range []string{"",
			`{"kind":"Gadget","apiVersion":"g.example/v1","metadata":{"namespace":"ns","name":"a","resourceVersion":"5"}}`} {
			for _, list := range []string{
				`{"apiVersion":"g.example/v1","items":[` + item + `],"kind":"` + name + `","metadata":{"resourceVersion":"9"}}`,
				`{"kind":"` + name + `","apiVersion":"g.example/v1","metadata":{"resourceVersion":"9"},"items":[` + item + `]}`,
			} {
				synctest.Test(t, func(t *testing.T) {
					server := &talk{list: list, watch: added}
					followed(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: server.client()}, list, item)
					followed(t, &lw.HTTP[*unstructured.Unstructured]{URL: "http://server/gadgets", Client: server.client()},
						list, item)
				})
			}
		}
	}
}

// followed runs an informer of src, whose server has the list, with item in it, and then b.
func followed[T lw.Object](t *testing.T, src lw.Source[T], list, item string) {
	t.Helper()
	errs := &rig.Errors{}
	inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add}, time.Minute)
	want := 1
	if item != "" {
		want = 2
	}
	if n := inf.Store().Len(); n != want || len(errs.All()) > 0 {
		t.Errorf("%T of %s: %d objects, errors %v", src, list, n, errs.All())
	}
}

// What a list of a projection's source told is what later requests must be about.
func TestHTTPKindOfProjection(t *testing.T) {
	server := &talk{list: configMaps, watch: strings.ReplaceAll(configMapAdded, "ConfigMap", "Secret")}
	src := &lw.HTTP[*part]{URL: "http://server/configmaps", Client: server.client()}
	if got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); err != nil || len(got.What) != 1 {
		t.Fatalf("list: %v, error %v", got, err)
	}
	want := "lw: HTTP: http://server/configmaps: want ConfigMap (as before), got Secret"
	for range 2 {
		if got, err := watchAll(t.Context(), src, metav1.ListOptions{}); err == nil || err.Error() != want || len(got.What)+
			len(got.Errs) > 0 {
			t.Errorf("watch: %v, error %v, want %s", got, err, want)
		}
	}
	server.list = strings.ReplaceAll(configMaps, "ConfigMap", "Secret")
	want = "lw: HTTP: http://server/configmaps: want a list of ConfigMap (as before), got SecretList"
	if got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{Continue: "next"}); err == nil ||
		err.Error() != want || len(got.What)+len(got.Errs) > 0 {
		t.Errorf("a further page: %v, error %v, want %s", got, err, want)
	}
	if got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); err != nil || len(got.What) != 1 {
		t.Errorf("a list of what the definition is now: %v, error %v", got, err)
	}
}

// A definition is deleted and comes back with another kind. Who has not said which kind it must be
// follows, as client-go does: the watch that tells the new kind is followed by a list.
func TestDefinitionOfAnotherKind(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
		rig.Subtest(t, fmt.Sprint(mode), func(t *testing.T) {
			type state struct{ kind, version, id string }
			var now atomic.Pointer[state]
			now.Store(&state{"Lamp", "8", `"namespace":"ns","name":"a","uid":"a","resourceVersion":"5"`})
			server := &talk{}
			next := server.client()
			client := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				kind, version, id := now.Load().kind, now.Load().version, now.Load().id
				object := `{"kind":"` + kind + `","apiVersion":"g.example/v1","metadata":{` + id + `}}`
				server.list = `{"apiVersion":"g.example/v1","items":[` + object + `],"kind":"` + kind +
					`s","metadata":{"resourceVersion":"` + version + `"}}`
				server.watch = `{"type":"BOOKMARK","object":{"kind":"` + kind +
					`Mark","apiVersion":"g.example/v1","metadata":{"resourceVersion":"` + version +
					`","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
				if q := r.URL.Query(); q.Get("sendInitialEvents") != "" || kind == "Light" && q.Get("resourceVersion") == "8" {
					server.watch = `{"type":"ADDED","object":` + object + "}\n" + server.watch
				}
				return next.Do(r)
			})}
			errs := &rig.Errors{}
			inf := lw.NewInformer[*unstructured.Unstructured](&lw.HTTP[*unstructured.Unstructured]{URL: "http://server/lights",
				Client: client}, &lw.Options{List: mode, OnError: errs.Add})
			rig.Start(t, inf)
			time.Sleep(time.Second)
			now.Store(&state{"Light", "9", `"namespace":"ns","name":"b","uid":"b","resourceVersion":"9"`})
			time.Sleep(11 * time.Minute)
			var got []string
			for obj := range inf.Store().All() {
				got = append(got, obj.GetKind()+" "+obj.GetName())
			}
			rig.Same(t, "", []string{"Light b"}, got)
			var other int
			for _, err := range errs.All() {
				if strings.Contains(err.Error(), "want Lamp (as before), got Light") {
					other++
				}
			}
			if other != 1 {
				t.Errorf("failures: %.2000v", errs.All())
			}
		})
	}
}

// An informer of another collection never syncs: it reports each failure, and says so to who waits.
func TestInformerOfAnotherKind(t *testing.T) {
	end := `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListStream, lw.ListPages, lw.ListWhole} {
		for name, server := range map[string]*talk{"empty": {list: strings.Split(configMaps, "[")[0] + "[]}", watch: end},
			"not empty": {list: configMaps, watch: configMapAdded + end}} {
			rig.Subtest(t, fmt.Sprintf("mode %v, %s", mode, name), func(t *testing.T) {
				errs := &rig.Errors{}
				inf := lw.NewInformer(&lw.HTTP[*rig.Gadget]{URL: "http://server/configmaps", Client: server.client()},
					&lw.Options{List: mode, OnError: errs.Add})
				rig.Start(t, inf)
				wait, give := context.WithTimeout(t.Context(), 10*time.Minute)
				defer give()
				err := inf.WaitForSync(wait)
				if err == nil || !strings.Contains(err.Error(), "http://server/configmaps: want ") || !strings.Contains(err.Error(),
					"got ConfigMap") {
					t.Errorf("the wait: %v", err)
				}
				if s := inf.Status(); s.Synced || len(s.SetAside) > 0 || s.Err == nil || inf.Store().Len() > 0 {
					t.Errorf("status %+v with %d objects", s, inf.Store().Len())
				}
				if n := len(server.asked); n != len(errs.All()) || n < 10 || n > 60 {
					t.Errorf("%d requests in ten minutes, %d errors", n, len(errs.All()))
				}
			})
		}
	}
}

// A watch that turns to another kind ends, is reported, and is not believed; what was there stays.
func TestWatchOfAnotherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &talk{list: gadgetListAt("9", gadgetA), watch: configMapAdded}
		errs := &rig.Errors{}
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: server.client()}
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add}, 10*time.Minute)
		if n := len(server.asked); n < 10 || n > 120 {
			t.Errorf("%d requests in ten minutes", n)
		}
		if _, ok := inf.Store().Get(lw.Key{Namespace: "ns", Name: "a"}); !ok || inf.Store().Len() != 1 {
			t.Errorf("the store has %v, want a", inf.Store().List())
		}
		for _, err := range errs.All() {
			if !strings.Contains(err.Error(), "http://server/gadgets: want Gadget (the kind of *rig.Gadget; set HTTP.Kind if it is called otherwise), got ConfigMap") {
				t.Errorf("reported: %v", err)
			}
		}
		if s := inf.Status(); s.Failures == 0 || s.Err == nil {
			t.Errorf("status %+v", s)
		}
	})
}

func gadgetListAt(version, items string) string {
	return fmt.Sprintf(`{"kind":"GadgetList","apiVersion":"lw.test/v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
		version, items)
}

// A Status in the place of a list or an event is an error with words, and with the response's code.
func TestHTTPStatusWithoutWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status"}`: "the server answered with a Status, without a message",
		`{"kind":"Status","status":"Failure","reason":"Gone"}`: `the server answered with a Status, status "Failure", reason "Gone", without a message`,
		`{"kind":"Status","status":"Success","message":"ok"}`:  `the server answered with a Status, status "Success", message "ok"`,
		`{"kind":"Status","message":"no"}`:                     "no",
	} {
		for code, header := range map[int]http.Header{200: {}, 203: rig.ContentType("application/json")} {
			c, _, _ := rig.Answer(code, header, body)
			list, watch := fails(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c})
			for op, err := range map[string]error{"list": list, "watch": watch} {
				status, ok := errors.AsType[*apierrors.StatusError](err)
				if !ok || err.Error() != "lw: HTTP: http://server/gadgets: "+want || status.Status().Code != int32(code) {
					t.Errorf("%s of %d %s: error %v (%T), want %s with the code", op, code, body, err, err, want)
				}
			}
		}
	}
	c, _, _ := rig.Answer(200, rig.ContentType("application/json"), `{"type":"ERROR","object":{"kind":"Status"}}`)
	_, err := watchAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c}, metav1.ListOptions{})
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || err.Error() == "" || status.Status().Code != 200 {
		t.Errorf("an ERROR event: %v", err)
	}
}

// Where T is an interface, Type is decoded into, and its kind checked. It must be a T.
func TestHTTPType(t *testing.T) {
	gadgets := &talk{list: gadgetList(gadgetA), watch: `{"type":"ADDED","object":` + gadgetA + "}\n"}
	src := &lw.HTTP[metav1.Object]{URL: "http://server/gadgets", Client: gadgets.client(),
		Type: reflect.TypeFor[*rig.Gadget]()}
	want := &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "ua", ResourceVersion: "5"}}
	want.Spec.Size = 3
	rig.Same(t, "list", []metav1.Object{want}, listed(t, src))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := watchAll(ctx, src, metav1.ListOptions{}); len(got.What) != 1 || len(got.Errs) > 0 ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("watch: %v, error %v", got, err)
		}
	})
	for url, tc := range map[string]struct {
		typ  reflect.Type
		list string
		err  string
	}{
		"http://server/other": {reflect.TypeFor[*rig.Gadget](), configMaps,
			"want a list of Gadget (the kind of *rig.Gadget;"},
		"http://server/struct": {reflect.TypeFor[rig.Gadget](), "",
			"cannot decode into rig.Gadget: want a pointer to a struct"},
		"http://server/no-type": {nil, "", "cannot decode into v1.Object: want a pointer to a struct"},
		"http://server/no-t":    {reflect.TypeFor[*struct{}](), "", "cannot decode into *struct {}: Type is not a v1.Object"},
	} {
		src := &lw.HTTP[metav1.Object]{URL: url, Client: (&talk{list: tc.list}).client(), Type: tc.typ}
		_, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
		if err == nil || !strings.Contains(err.Error(), "lw: HTTP: "+url+": "+tc.err) ||
			errors.Is(err, lw.ErrPermanent) != (tc.list == "") {
			t.Errorf("%s: error %v, want %s", url, err, tc.err)
		}
	}
}

// A type may be as small as its program needs: an identity that is lw's Meta, and some fields.
func TestHTTPMeta(t *testing.T) {
	type slim struct {
		lw.Meta `json:"metadata"`
		Spec    struct {
			Size int `json:"size"`
		} `json:"spec"`
	}
	src := lw.Source[*slim](&lw.HTTP[*slim]{URL: "http://server/gadgets",
		Client: (&talk{list: gadgetList(gadgetA)}).client()})
	want := []*slim{{Meta: lw.Meta{Namespace: "ns", Name: "a", UID: "ua", ResourceVersion: "5"}}}
	want[0].Spec.Size = 3
	rig.Same(t, "list", want, listed(t, src))
}

// A meter is what the program writes, and a dial what it reads of it.
type meter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size  int    `json:"size"`
		Color string `json:"color"`
	} `json:"spec"`
}

type dial struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func newMeter() *meter {
	m := &meter{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "a", UID: "u", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	m.Spec.Size, m.Spec.Color = 3, "red"
	return m
}

// An object that was told becomes what a list would have yielded, in memory of its own.
func TestHTTPTold(t *testing.T) {
	all := "http://host/apis/lw.test/v1/meters"
	in := "http://host/prefix/apis/lw.test/v1/namespaces/"
	projected := &dial{Meta: lw.Meta{Namespace: "blue", Name: "a", UID: "u", ResourceVersion: "7"}}
	projected.Spec.Size = 3
	dropped := newMeter()
	dropped.ManagedFields, dropped.Spec.Color = nil, ""
	only := newMeter()
	only.ManagedFields, only.Labels, only.Spec.Color = nil, nil, ""
	one := func(src lw.Source[*meter]) func(lw.Identified) (any, bool, error) {
		return func(obj lw.Identified) (any, bool, error) { return src.(lw.Teller[*meter]).Told(obj) }
	}
	unstructuredMeter := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lw.test/v1", "kind": "Meter",
		"metadata": map[string]any{"namespace": "blue", "name": "a", "uid": "u", "resourceVersion": "7"},
		"spec":     map[string]any{"size": int64(3)},
	}}
	for _, tt := range []struct {
		name string
		told func(lw.Identified) (any, bool, error)
		obj  lw.Identified
		want any // nil: it is left out
		err  error
	}{
		{"whole", one(&lw.HTTP[*meter]{URL: all}), newMeter(), newMeter(), nil},
		{"without fields", one(&lw.HTTP[*meter]{URL: all, Drop: []string{"metadata.managedFields", "spec.color"}}),
			newMeter(), dropped, nil},
		{"only some fields", one(&lw.HTTP[*meter]{URL: all, Only: lw.Fields{"spec.size"}}), newMeter(), only, nil},
		{"a projection", func(obj lw.Identified) (any, bool, error) { return (&lw.HTTP[*dial]{URL: all}).Told(obj) },
			newMeter(), projected, nil},
		{"of an untyped object", func(obj lw.Identified) (any, bool, error) { return (&lw.HTTP[*dial]{URL: all}).Told(obj) },
			unstructuredMeter, projected, nil},
		{"untyped", func(obj lw.Identified) (any, bool, error) {
			return (&lw.HTTP[*unstructured.Unstructured]{URL: all}).Told(obj)
		}, unstructuredMeter, unstructuredMeter, nil},
		{"of its namespace", one(&lw.HTTP[*meter]{URL: in + "blue/meters"}), newMeter(), newMeter(), nil},
		{"of another namespace", one(&lw.HTTP[*meter]{URL: in + "green/meters"}), newMeter(), nil, nil},
		{"of its labels", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app%3Dweb"}), newMeter(), newMeter(), nil},
		{"of other labels", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app%3Ddb"}), newMeter(), nil, nil},
		{"of another name", one(&lw.HTTP[*meter]{URL: all + "?fieldSelector=metadata.name!%3Da"}), newMeter(), nil, nil},
		{"of its name", one(&lw.HTTP[*meter]{URL: all + "?fieldSelector=metadata.name%3Da,spec.size%3D4"}), newMeter(),
			newMeter(), nil},
		{"options that leave it out", one(lw.WithListOptions(lw.Source[*meter](&lw.HTTP[*meter]{URL: all}),
			func(o *metav1.ListOptions) {
				o.FieldSelector = "metadata.namespace=green"
			})), newMeter(), nil, nil},
		{"labels that nobody knows", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app"}), projected, nil,
			errors.ErrUnsupported},
		{"a shard", one(lw.Shard[*meter](&lw.HTTP[*meter]{URL: all}, 1, 2)), newMeter(), newMeter(), nil},
		{"another shard", one(lw.Shard[*meter](&lw.HTTP[*meter]{URL: all}, 0, 2)), newMeter(), nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, stays, err := tt.told(tt.obj)
			if !errors.Is(err, tt.err) || err != nil && tt.err == nil || stays != (tt.want != nil) {
				t.Fatalf("stays %v, error %v", stays, err)
			}
			if !stays {
				return
			}
			if m, ok := tt.obj.(*meter); ok {
				m.Labels["app"], m.Spec.Size = "changed", 99
			}
			rig.Same(t, "", tt.want, got)
		})
	}
	if _, _, err := (&lw.HTTP[*unstructured.Unstructured]{URL: all}).Told(newMeter()); err == nil {
		t.Error("an untyped object is made without a kind")
	}
}
