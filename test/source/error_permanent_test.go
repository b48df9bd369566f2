package source_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// mapped is an object that no JSON object is decoded into.
type mapped map[string]string

func (m *mapped) GetNamespace() string       { return "" }
func (m *mapped) GetName() string            { return (*m)["name"] }
func (m *mapped) GetUID() types.UID          { return "" }
func (m *mapped) GetResourceVersion() string { return "" }

// What can never work ends Run at once, with an error that says why, as do the waits, Status and
// OnError.
func TestRunEndsWithWhatCanNeverWork(t *testing.T) {
	t.Run("no URL", func(t *testing.T) { rig.EndsAtOnce(t, &lw.HTTP[*rig.Gadget]{}, "stream", "HTTP: no URL") })
	for name, tt := range map[string]struct {
		url  string
		drop string
		want string
	}{
		"no scheme":              {"://", "", `HTTP: URL "://": missing protocol scheme`},
		"no host":                {"server/pods", "", `HTTP: URL "server/pods": want http://host/`},
		"another scheme":         {"ftp://user:secret@server/?token=secret", "", `HTTP: URL "ftp://user:xxxxx@server/": want http://host/`},
		"a space":                {"http://user:secret@ser ver/p@ds?token=secret", "", `HTTP: URL "http://xxxxx@ds": invalid character " " in host name`},
		"a port that is none":    {"http://server:secret/", "", `invalid port ":secret" after host`},
		"a query that is none":   {"http://server/?a=%zz", "", `HTTP: URL "http://server/": its query: invalid URL escape "%zz"`},
		"a label selector in it": {"http://server/x?labelSelector=a%3D%3D%3D", "", `HTTP: http://server/x?labelSelector=a%3D%3D%3D: label selector "a===": `},
		"a field selector in it": {"http://server/x?fieldSelector=a", "", `HTTP: http://server/x?fieldSelector=a: field selector "a": `},
		"a field that T has not": {"http://user:secret@server/x", "spec.sise", `HTTP: http://user:xxxxx@server/x: Drop: spec: struct { Size int "json:\"size\"" } has no "sise" to drop`},
	} {
		src := &lw.HTTP[*rig.Gadget]{URL: tt.url, Client: &http.Client{Transport: rig.RoundTrip(func(*http.Request) (*http.Response, error) {
			t.Errorf("%s: a request is sent", name)
			return nil, errors.New("no")
		})}}
		if tt.drop != "" {
			src.Drop = []string{tt.drop}
		}
		t.Run(name, func(t *testing.T) { rig.EndsAtOnce(t, src, "stream", tt.want) })
		t.Run(name+", transformed", func(t *testing.T) {
			same := func(g *rig.Gadget) (*rig.Gadget, error) { return g, nil }
			rig.EndsAtOnce(t, lw.Transform(lw.WithListOptions(src, func(*metav1.ListOptions) {}), same), "stream", tt.want)
		})
	}
	t.Run("a field to keep that T has not", func(t *testing.T) {
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Only: lw.Fields{"metadata.labels", "spec.sise"}}
		rig.EndsAtOnce(t, src, "stream", `HTTP: http://server/x: Only: spec: struct { Size int "json:\"size\"" } has no "sise" to keep`)
	})
	t.Run("a field below one that decodes itself", func(t *testing.T) {
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Only: lw.Fields{"metadata.creationTimestamp.seconds"}}
		rig.EndsAtOnce(t, src, "stream", `HTTP: http://server/x: Only: metadata: creationTimestamp: v1.Time decodes itself`)
	})
	t.Run("a projection without a number", func(t *testing.T) {
		src := &lw.HTTP[*rig.Numberless]{URL: "http://server/x", Drop: []string{"spec.size"}}
		rig.EndsAtOnce(t, src, "stream", "HTTP: http://server/x: cannot decode protobuf into *rig.Numberless: spec.color: no protobuf tag")
	})
	t.Run("a type that is no struct", func(t *testing.T) {
		rig.EndsAtOnce(t, &lw.HTTP[*mapped]{URL: "http://server/x"}, "stream", "HTTP: http://server/x: cannot decode into *source_test.mapped: want a pointer to a struct")
	})
	t.Run("a selector of WithListOptions", func(t *testing.T) {
		rig.EndsAtOnce(t, lw.WithListOptions(lw.NewMemory[*rig.Widget](), func(o *metav1.ListOptions) { o.LabelSelector = "a in b" }), "stream",
			`WithListOptions: label selector "a in b": `)
		rig.EndsAtOnce(t, lw.WithListOptions(lw.NewMemory[*rig.Widget](), func(o *metav1.ListOptions) { o.FieldSelector = "a" }), "stream",
			`WithListOptions: field selector "a": `)
	})
	t.Run("a selector of FromClient", func(t *testing.T) {
		rig.EndsAtOnce(t, lw.FromClient(&applianceClient{}, func(o *metav1.ListOptions) { o.LabelSelector = "a in b" }), "stream",
			`FromClient: label selector "a in b": `)
		src := lw.FromClient(&applianceClient{}, func(o *metav1.ListOptions) { o.FieldSelector = "a" })
		if _, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); !rig.Matches(err, `lw: FromClient: field selector "a": `) || !errors.Is(err, lw.ErrPermanent) {
			t.Errorf("List: %v", err)
		}
	})
	t.Run("a ListWatch without a function", func(t *testing.T) {
		type lists = lw.ListWatch[*appliance, *listOf[*appliance]]
		w := func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, apierrors.NewBadRequest("no")
		}
		rig.EndsAtOnce(t, &lists{WatchFunc: w}, "list", "ListWatch: nil ListFunc")
		rig.EndsAtOnce(t, &lists{}, "stream", "ListWatch: nil WatchFunc")
	})
	t.Run("a foreign source", func(t *testing.T) {
		rig.EndsAtOnce(t, hopeless{lw.NewMemory[*rig.Widget](), errors.Join(errors.New("no such shard"), lw.ErrPermanent)}, "stream", "no such shard")
	})
}

type hopeless struct {
	lw.Source[*rig.Widget]
	err error
}

func (h hopeless) Watch(context.Context, metav1.ListOptions, func(lw.WatchEvent[*rig.Widget]) error) error {
	return h.err
}

// A Reflector ends as an Informer does, also long after it has synced, and what is no ErrPermanent
// is tried for as long as it takes.
func TestReflectorEndsWithWhatCanNeverWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(rig.NewWidget("a", 1))
		var broken atomic.Bool
		src := lw.WithListOptions(server, func(o *metav1.ListOptions) {
			if broken.Load() {
				o.FieldSelector = "a"
			}
		})
		store := lw.NewIndexer[*rig.Widget]()
		ended := make(chan error, 1)
		r := lw.NewReflector(src, store, &lw.Options{OnError: func(error) {}})
		go func() { ended <- r.Run(t.Context()) }()
		rig.Sleep(time.Minute)
		server.Fail(errors.New("down"))
		rig.Sleep(time.Hour)
		if store.Len() != 1 || len(ended) != 0 {
			t.Fatalf("%d objects", store.Len())
		}
		broken.Store(true)
		server.Fail(nil)
		rig.Sleep(time.Hour)
		select {
		case err := <-ended:
			if !errors.Is(err, lw.ErrPermanent) || !strings.Contains(err.Error(), `lw: Widget: stream (failure `) {
				t.Errorf("Run: %v", err)
			}
		default:
			t.Error("Run goes on")
		}
	})
}

func TestTweaksAreFunctions(t *testing.T) {
	rig.PanicsWith(t, "lw: WithListOptions: nil function", func() { lw.WithListOptions(lw.NewMemory[*rig.Widget](), nil, nil) })
	rig.PanicsWith(t, "lw: FromClient: nil function", func() { lw.FromClient(&applianceClient{}, func(*metav1.ListOptions) {}, nil) })
}
