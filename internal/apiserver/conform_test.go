package apiserver_test

import (
	"reflect"
	"testing"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/registry/conform"
	"github.com/go-lw/lw/internal/rig"
)

// conforming are the resources of the table of writes.
func conforming(t testing.TB, managed bool) (all []Resource) {
	pod := rig.Must[*registry.Type](t)(registry.TypeOf(reflect.TypeFor[*conform.Pod]()))
	for _, r := range conform.Resources {
		res := Resource{Group: "example.io", Resource: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Scale: r.Scale, Custom: true, Versioned: true, Managed: managed}
		if r.Typed {
			res = Resource{Resource: r.Plural, Kind: r.Kind, Type: pod, Grace: true, Managed: managed}
		}
		all = append(all, res)
	}
	return all
}

// The server answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubbleOf(t, conforming(t, managed), func(b *bench) {
			conform.Play(b, conform.Server{Client: b.client, URL: "http://apiserver"}, true)
		})
	}
}
