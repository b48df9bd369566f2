package history_test

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestMain(m *testing.M) { leak.Main(m) }

// newThings returns a collection with versions 2 to 6: a, b and c created, b updated to label new,
// a deleted.
func newThings(t *testing.T) (*Line, *Collection[string]) {
	line := NewLine()
	c := NewCollection(line, Options[string]{
		Resource: schema.GroupResource{Group: "example.com", Resource: "things"},
		Fields:   []string{"spec.color"},
	})
	for _, name := range []string{"c", "a", "b"} {
		create(t, c, name, "old")
	}
	update(t, c, "b", "new")
	remove(t, c, "a")
	return line, c
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func thing(name, label string) Object[string] {
	return Object[string]{
		Key:    key(name),
		Labels: map[string]string{"l": label},
		Fields: map[string]string{"spec.color": "color of " + name},
		Value:  name + " " + label,
	}
}

func create(t *testing.T, c *Collection[string], name, label string) *Object[string] {
	t.Helper()
	return rig.Must[*Object[string]](t)(c.Create(thing(name, label)))
}

func update(t *testing.T, c *Collection[string], name, label string) *Object[string] {
	t.Helper()
	return rig.Must[*Object[string]](t)(c.Update(thing(name, label), Preconditions{}))
}

func remove(t *testing.T, c *Collection[string], name string) {
	t.Helper()
	_, _, err := c.Delete(key(name), Preconditions{})
	rig.OK(t, err)
}

func names(objs []*Object[string]) string {
	var s []string
	for _, obj := range objs {
		s = append(s, obj.Value)
	}
	return strings.Join(s, ", ")
}

// code is the HTTP status of an error and its reason, or 0 for none.
func code(err error) (int32, metav1.StatusReason) {
	if err == nil {
		return 0, ""
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return -1, metav1.StatusReason(err.Error())
	}
	return status.Status().Code, status.Status().Reason
}

type options = metav1.ListOptions

// reasons are those that belong to a status; 0 stands for no error.
var reasons = map[int32]metav1.StatusReason{
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

func TestListOptions(t *testing.T) {
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	tests := []struct {
		name      string
		namespace string
		opts      options
		version   uint64
		want      string
		code      int32
	}{
		{name: "now", version: 6, want: "b new, c old"},
		{name: "any", opts: options{ResourceVersion: "0"}, version: 6, want: "b new, c old"},
		{name: "any ignores the limit", opts: options{ResourceVersion: "0", Limit: 1}, version: 6, want: "b new, c old"},
		{name: "not older by default", opts: options{ResourceVersion: "4"}, version: 6, want: "b new, c old"},
		{name: "exact by default with a limit", opts: options{ResourceVersion: "4", Limit: 9}, version: 4,
			want: "a old, b old, c old"},
		{name: "not older", opts: options{ResourceVersion: "4", ResourceVersionMatch: notOlder}, version: 6,
			want: "b new, c old"},
		{name: "not older with a limit", opts: options{ResourceVersion: "4", ResourceVersionMatch: notOlder, Limit: 1},
			version: 6, want: "b new"},
		{name: "not older than any", opts: options{ResourceVersion: "0", ResourceVersionMatch: notOlder}, version: 6,
			want: "b new, c old"},
		{name: "exact", opts: options{ResourceVersion: "4", ResourceVersionMatch: exact}, version: 4,
			want: "a old, b old, c old"},
		{name: "exact, the oldest that is kept", opts: options{ResourceVersion: "3", ResourceVersionMatch: exact}, version: 3,
			want: "a old, c old"},
		{name: "namespace", namespace: "ns", version: 6, want: "b new, c old"},
		{name: "other namespace", namespace: "n", version: 6},
		{name: "label", opts: options{LabelSelector: "l!=old"}, version: 6, want: "b new"},
		{name: "name", opts: options{FieldSelector: "metadata.name=c,metadata.namespace=ns"}, version: 6, want: "c old"},
		{name: "field", opts: options{FieldSelector: "spec.color!=color of c"}, version: 6, want: "b new"},
		{name: "limit", opts: options{Limit: 1}, version: 6, want: "b new"},

		{name: "compacted", opts: options{ResourceVersion: "2", ResourceVersionMatch: exact}, code: 410},
		{name: "too large", opts: options{ResourceVersion: "7"}, code: 504},
		{name: "too large, exact", opts: options{ResourceVersion: "7", ResourceVersionMatch: exact}, code: 504},
		{name: "no number", opts: options{ResourceVersion: "abc"}, code: 400},
		{name: "leading zero", opts: options{ResourceVersion: "06"}, code: 400},
		{name: "match of nothing", opts: options{ResourceVersionMatch: notOlder}, code: 422},
		{name: "exactly any", opts: options{ResourceVersion: "0", ResourceVersionMatch: exact}, code: 422},
		{name: "unknown match", opts: options{ResourceVersion: "4", ResourceVersionMatch: "About"}, code: 422},
		{name: "initial events", opts: options{SendInitialEvents: new(true)}, code: 422},
		{name: "match with continue", opts: options{ResourceVersion: "4", ResourceVersionMatch: exact, Continue: "x"},
			code: 422},
		{name: "version with continue", opts: options{ResourceVersion: "4", Continue: "x"}, code: 400},
		{name: "continue of nobody", opts: options{Continue: "x"}, code: 400},
		{name: "continue of nothing", opts: options{Continue: listopts.Token{Version: 6}.Encode()}, code: 400},
		{name: "continue of a version to come", opts: options{Continue: listopts.Token{Version: 7, Start: "a"}.Encode()},
			code: 504},
		{name: "label selector", opts: options{LabelSelector: "l in"}, code: 400},
		{name: "field selector", opts: options{FieldSelector: "a"}, code: 400},
		{name: "unknown field", opts: options{FieldSelector: "spec.size=1"}, code: 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, c := newThings(t)
			line.Compact(3)
			page, err := c.List(tt.namespace, tt.opts)
			gotCode, gotReason := code(err)
			if gotCode != tt.code || gotReason != reasons[tt.code] {
				t.Fatalf("List = %v: %d %s, want %d %s", err, gotCode, gotReason, tt.code, reasons[tt.code])
			}
			if page.Version != tt.version || names(page.Items) != tt.want {
				t.Errorf("List = %d: %s, want %d: %s", page.Version, names(page.Items), tt.version, tt.want)
			}
		})
	}
}

func TestTooLargeVersion(t *testing.T) {
	_, c := newThings(t)
	_, err := c.List("", options{ResourceVersion: "9"})
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("%v has no cause ResourceVersionTooLarge", err)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 1 {
		t.Errorf("%v suggests a delay of %d s, %v; want 1", err, seconds, ok)
	}
}

func TestPages(t *testing.T) {
	_, c := newThings(t)
	page, err := c.List("", options{Limit: 1})
	if err != nil || *page.Remaining != 1 || page.Continue == "" {
		t.Fatalf("first page = %+v, %v", page, err)
	}
	remove(t, c, "c")
	page, err = c.List("", options{Limit: 1, Continue: page.Continue})
	if err != nil || names(page.Items) != "c old" || page.Version != 6 || page.Continue != "" || page.Remaining != nil {
		t.Fatalf("second page = %+v, %v, want c as of version 6", page, err)
	}

	create(t, c, "a", "old")
	page, err = c.List("ns", options{Limit: 1})
	if err != nil || *page.Remaining != 1 {
		t.Errorf("page of a namespace = %+v, %v, want 1 to remain", page, err)
	}
	page, err = c.List("", options{Limit: 1, LabelSelector: "l"})
	if err != nil || page.Remaining != nil || page.Continue == "" {
		t.Errorf("page of a selector = %+v, %v, want a token and no count", page, err)
	}
}

// TestTokenOfANamespace checks that a token is relative to the namespace of its request, as that of
// kube-apiserver is. So it looks the same in each namespace, and in another one it goes on behind
// the same name there.
func TestTokenOfANamespace(t *testing.T) {
	_, c := newThings(t) // b and c of ns
	for _, name := range []string{"a", "b", "d"} {
		other := thing(name, "old")
		other.Key.Namespace = "other"
		rig.Must[*Object[string]](t)(c.Create(other))
	}
	first, err := c.List("ns", options{Limit: 1})
	if err != nil || names(first.Items) != "b new" {
		t.Fatalf("first page: %v, %v", names(first.Items), err)
	}
	if want := (listopts.Token{Version: 9, Start: "b\x00"}).Encode(); first.Continue != want {
		t.Errorf("token %s, want %s", first.Continue, want)
	}
	for namespace, want := range map[string]string{"ns": "c old", "other": "d old", "none": ""} {
		page, err := c.List(namespace, options{Continue: first.Continue})
		if err != nil || names(page.Items) != want || page.Version != 9 {
			t.Errorf("the next page in %s: %v at %d, %v; want %s", namespace, names(page.Items), page.Version, err, want)
		}
	}
	all, err := c.List("", options{Limit: 1})
	if want := (listopts.Token{Version: 9, Start: "ns/b\x00"}).Encode(); err != nil || all.Continue != want {
		t.Errorf("token of all namespaces %s, %v; want %s", all.Continue, err, want)
	}
	if page, err := c.List("", options{Continue: all.Continue}); err != nil || len(page.Items) != 4 {
		t.Errorf("the next page of all namespaces: %v, %v", names(page.Items), err)
	}
}

func TestExpiredToken(t *testing.T) {
	line, c := newThings(t)
	page, err := c.List("", options{Limit: 1})
	rig.OK(t, err)
	create(t, c, "d", "old")
	line.Compact(7)
	_, err = c.List("", options{Limit: 1, Continue: page.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("page of a compacted version: %v", err)
	}
	page, err = c.List("", options{Continue: err.(apierrors.APIStatus).Status().ListMeta.Continue})
	if err != nil || page.Version != 7 || names(page.Items) != "c old, d old" {
		t.Errorf("the rest = %d: %s, %v, want c and d as of version 7", page.Version, names(page.Items), err)
	}
}

// TestOrder pins the order of etcd's keys, in which the namespace a-b is before a.
func TestOrder(t *testing.T) {
	c := NewCollection(NewLine(), Options[string]{})
	for _, key := range []types.NamespacedName{{Namespace: "a", Name: "x"}, {Namespace: "a-b", Name: "x"},
		{Namespace: "a", Name: "b"}} {
		rig.Must[*Object[string]](t)(c.Create(Object[string]{Key: key, Value: key.String()}))
	}
	page, err := c.List("", options{})
	rig.OK(t, err)
	rig.Same(t, "List", "a-b/x, a/b, a/x", names(page.Items))
}
