package listopts_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/internal/shard"
)

// A pod is an object with one field.
type pod struct {
	namespace, name, node string
	labels                map[string]string
}

func (p *pod) field(name string) string {
	if name == "spec.nodeName" {
		return p.node
	}
	return ""
}

func (p *pod) object() listopts.Object {
	return listopts.Object{Namespace: p.namespace, Name: p.name, UID: "u", Labels: p.labels}
}

func known(field string) bool { return field == "spec.nodeName" }

func TestFilter(t *testing.T) {
	pods := []pod{
		{"ns", "a", "n1", map[string]string{"app": "x"}},
		{"ns", "b", "n2", nil},
		{"other", "a", "n2", map[string]string{"app": "y"}},
	}
	type options = metav1.ListOptions
	one := shard.Selector{Field: shard.UID, Ranges: []shard.Range{{First: shard.Hash("u"), Last: shard.Hash("u")}}}
	none := shard.Selector{Field: shard.Namespace, Ranges: []shard.Range{{First: 0, Last: 0}}}
	for _, tt := range []struct {
		name, namespace            string
		opts                       options
		want                       string
		selects                    bool
		exactName, exactNamespaces string
	}{
		{name: "all", want: "ns/a ns/b other/a"},
		{name: "namespace", namespace: "ns", want: "ns/a ns/b", exactNamespaces: "ns"},
		{name: "label", opts: options{LabelSelector: "app=x"}, want: "ns/a", selects: true},
		{name: "no label", opts: options{LabelSelector: "!app"}, want: "ns/b", selects: true},
		{name: "field", opts: options{FieldSelector: "spec.nodeName=n2"}, want: "ns/b other/a", selects: true},
		{name: "not field", opts: options{FieldSelector: "spec.nodeName!=n2"}, want: "ns/a", selects: true},
		{name: "name", opts: options{FieldSelector: "metadata.name==a"}, want: "ns/a other/a", selects: true, exactName: "a"},
		{
			name: "key", opts: options{FieldSelector: "metadata.namespace=ns,metadata.name=a"},
			want: "ns/a", selects: true, exactName: "a", exactNamespaces: "ns",
		},
		{name: "not name", opts: options{FieldSelector: "metadata.name!=a"}, want: "ns/b", selects: true},
		{name: "two names", opts: options{FieldSelector: "metadata.name=a,metadata.name=b"}, selects: true, exactName: "a"},
		{
			name: "another namespace", namespace: "ns", opts: options{FieldSelector: "metadata.namespace=other"},
			selects: true, exactNamespaces: "ns",
		},
		{name: "no name", opts: options{FieldSelector: "metadata.name="}, selects: true},
		{name: "one of many", opts: options{LabelSelector: "app", FieldSelector: "spec.nodeName=n2"}, want: "other/a", selects: true},
		{name: "empty field selector", opts: options{FieldSelector: ","}, want: "ns/a ns/b other/a"},
		{name: "empty label selector", opts: options{LabelSelector: " "}, want: "ns/a ns/b other/a"},
		{name: "shard", opts: options{ShardSelector: one.String()}, want: "ns/a ns/b other/a", selects: true},
		{name: "empty shard", opts: options{ShardSelector: none.String()}, selects: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := listopts.NewFilter(tt.namespace, tt.opts, known)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range pods {
				if f.Matches(pods[i].object(), pods[i].field) {
					got = append(got, pods[i].namespace+"/"+pods[i].name)
				}
			}
			rig.Same(t, "selected", tt.want, strings.Join(got, " "))
			if f.Selects() != tt.selects || f.Name() != tt.exactName || f.Namespace() != tt.exactNamespaces {
				t.Errorf("Selects, Name, Namespace = %v, %q, %q; want %v, %q, %q",
					f.Selects(), f.Name(), f.Namespace(), tt.selects, tt.exactName, tt.exactNamespaces)
			}
			var echo *metav1.ShardInfo
			if s := tt.opts.ShardSelector; s != "" {
				echo = &metav1.ShardInfo{Selector: s}
			}
			rig.Same(t, "Shard", echo, f.Shard())
		})
	}
}

func TestFilterErrors(t *testing.T) {
	for _, tt := range []struct {
		opts metav1.ListOptions
		code int32
		want string
	}{
		{metav1.ListOptions{LabelSelector: "a in"}, 400, `unable to parse label selector "a in"`},
		{metav1.ListOptions{FieldSelector: "a"}, 400, `unable to parse field selector "a"`},
		{metav1.ListOptions{FieldSelector: "spec.size=1"}, 400, "field label not supported: spec.size"},
		{metav1.ListOptions{ShardSelector: "a"}, 500, "invalid shard selector"},
	} {
		_, err := listopts.NewFilter("", tt.opts, known)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %d %s", tt.opts, err, tt.code, tt.want)
		}
	}
	if _, err := listopts.NewFilter("", metav1.ListOptions{FieldSelector: "spec.nodeName=x"}, nil); !apierrors.IsBadRequest(err) {
		t.Errorf("without known fields: %v, want BadRequest", err)
	}
}

// TestMatchAllocates checks that a match costs no allocation, because every watch matches every
// event.
func TestMatchAllocates(t *testing.T) {
	f, err := listopts.NewFilter("ns", metav1.ListOptions{
		LabelSelector: "app=x,tier!=y,app in (x,z)", FieldSelector: "spec.nodeName=n1,metadata.name!=b",
		ShardSelector: (&shard.Selector{Field: shard.UID, Ranges: []shard.Range{shard.Part(0, 1)}}).String(),
	}, known)
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{"ns", "a", "n1", map[string]string{"app": "x"}}
	matches := true
	if n := testing.AllocsPerRun(100, func() {
		matches = matches && f.Matches(listopts.Object{Namespace: p.namespace, Name: p.name, UID: "u", Labels: p.labels}, p.field)
	}); n != 0 || !matches {
		t.Errorf("a match: %v, %v allocations; want true and none", matches, n)
	}
}
