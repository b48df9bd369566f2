package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

const (
	// cborGate makes kube-apiserver write CBOR where a client asks for it (KEP-4222).
	cborGate   = "--feature-gates=CBORServingAndStorage=true"
	acceptCBOR = "application/cbor,application/json"
)

// cborWires are the ways in which CBOR is tested.
var cborWires = []wire{{name: "http-cbor-h2", cbor: true}, {name: "http-cbor-h1", cbor: true, http1: true}}

// answeredIn checks that each answer to c with an object or a stream was of one of the media types.
func answeredIn(t *testing.T, c *client, media ...string) {
	t.Helper()
	n := 0
	for _, req := range c.all() {
		if req.status != http.StatusOK {
			continue
		}
		n++
		known := false
		for _, m := range media {
			known = known || req.media == m
		}
		if !known {
			t.Errorf("%s: a %s was answered in %s, want one of %q", c.wire.name, req.verb, req.media, media)
		}
	}
	if n == 0 {
		t.Errorf("%s: no request was answered", c.wire.name)
	}
}

// seedAndWait is seed, and waits until the server shows all objects. They are written in one
// transaction, and the server's watch cache takes them one by one: a list between two of them is
// shorter, and has the version of all.
func seedAndWait(t *testing.T, s *servers.Server, r *servers.Reader, namespace string, n, size int) {
	t.Helper()
	seed(t, s, namespace, n, size)
	rig.Until(t, patience, func() string {
		if objs, _, err := r.List(within(t, patience), collection("configmaps", namespace)); err != nil || len(objs) != n {
			return fmt.Sprintf("the server has %d objects, %v", len(objs), err)
		}
		return ""
	})
}

// TestCBOR follows ConfigMaps in CBOR through every way to list, through time-outs of watches, and
// through a kill of the server.
func TestCBOR(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "cbor"
		s, r := started(t, kind, cborGate)
		seedAndWait(t, s, r, namespace, 50, 2_000)
		var all []*follower[*corev1.ConfigMap]
		for _, mode := range []lw.ListMode{lw.ListWhole, lw.ListPages, lw.ListStream} {
			all = append(all, followConfigMaps(t, s, namespace,
				followOptions{Options: lw.Options{List: mode, PageSize: 20, WatchTimeout: 5 * time.Second}}, cborWires...)...)
		}
		inStep(t, r, all...)
		writes := startChurn(t, s, namespace)
		writes.more(t, 50)
		s.KillAPI()
		for _, f := range all {
			f.told("the kill", func(error) bool { return true })
		}
		rig.OK(t, s.StartAPI(within(t, patience)))
		writes.more(t, 30)
		writes.stop()
		for _, f := range all {
			f.same(r)
			f.paced()
			answeredIn(t, f.client, "application/cbor", "application/cbor-seq")
		}

		// The items of a list say no kind, and that of the list may stand behind them: the server
		// writes the members in another order each time.
		for range 8 {
			untyped := &lw.HTTP[*unstructured.Unstructured]{URL: s.URL + collection("configmaps", namespace),
				Client: newClient(t, s, cborWires[0]).http, Accept: acceptCBOR}
			n := 0
			_, err := untyped.List(t.Context(), metav1.ListOptions{}, func(u *unstructured.Unstructured, err error) error {
				if n++; err == nil && (u.GetKind() != "ConfigMap" || u.GetAPIVersion() != "v1") {
					err = fmt.Errorf("%s is a %s of %s", u.GetName(), u.GetKind(), u.GetAPIVersion())
				}
				return err
			})
			if err != nil || n < 50 {
				t.Errorf("%d objects without a type: %v", n, err)
			}
		}

		// What the server refuses, it refuses in CBOR.
		c := newClient(t, s, cborWires[0])
		src := &lw.HTTP[*corev1.ConfigMap]{URL: s.URL + "/api/v1/namespaces/" + namespace + "/configmaps", Client: c.http,
			Accept: acceptCBOR}
		none := func(*corev1.ConfigMap, error) error { return nil }
		_, err := src.List(t.Context(), metav1.ListOptions{Continue: "nonsense"}, none)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusBadRequest || !strings.Contains(err.Error(),
			"continue") {
			t.Errorf("a nonsensical token: %v", err)
		}
	}, servers.Kube)
}

// TestCBORCustomResource follows a custom resource in CBOR: typed, without a type, and metadata
// only. An object that does not fit is set aside.
func TestCBORCustomResource(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, plural = "cbor", "wicks"
		s, r := started(t, kind, cborGate)
		path := defineWidgets(t, r, plural, namespace)
		for i := range 10 {
			create(t, r, path, newWidget(plural, namespace, fmt.Sprintf("w-%d", i), i))
		}
		var all []watcher
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
			all = append(all, followForms(t, s, path, plural, mode, wire{cbor: true})...)
		}
		inStep(t, r, all...)
		create(t, r, path, newWidget(plural, namespace, "new", 1))
		merge(t, r, path+"/w-0", object{"spec": object{"size": 100}})
		remove(t, r, path+"/w-1")
		inStep(t, r, all...)
		create(t, r, path, newWidget(plural, namespace, "odd", "large"))
		all[0].told("the object that does not fit", func(err error) bool {
			e, ok := errors.AsType[*lw.Error](err)
			return ok && e.Key.Name == "odd" && strings.Contains(err.Error(), "spec.size")
		})
	}, servers.Kube)
}

// TestCBORWithoutTheGate asks a server for CBOR that has none. It answers in JSON if Accept allows
// that; if not, the error says so.
func TestCBORWithoutTheGate(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		if *cborFlag && kind.Name == servers.Kube.Name {
			t.Skip("with -cbor, kube-apiserver has CBOR")
		}
		const namespace = "no-cbor"
		s, r := shared(t, kind)
		seedAndWait(t, s, r, namespace, 5, 100)
		for _, f := range followConfigMaps(t, s, namespace, followOptions{}, cborWires...) {
			f.same(r)
			answeredIn(t, f.client, "application/json")
		}
		c := newClient(t, s, cborWires[0])
		src := &lw.HTTP[*corev1.ConfigMap]{URL: s.URL + collection("configmaps", namespace), Client: c.http,
			Accept: "application/cbor"}
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(*corev1.ConfigMap, error) error { return io.EOF })
		if apierrors.ReasonForError(err) != metav1.StatusReasonNotAcceptable || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("only CBOR: %v", err)
		}
	}, servers.Kinds...)
}
