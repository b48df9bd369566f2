package clientgo

import (
	"net/url"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw/internal/rig"
)

type custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func TestAcceptFor(t *testing.T) {
	const (
		json     = "application/json"
		protobuf = "application/vnd.kubernetes.protobuf"
		metadata = protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
		table    = "application/json;as=Table;g=meta.k8s.io;v=v1"
		no       = "no"
		cbor     = "application/cbor"
		asList   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		as       = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	for _, tt := range []struct {
		header                              string
		pod, custom, unstructured, metadata string
	}{
		{"", json, json, json, no},
		{"*/*", json, json, json, no},
		{"application/json, */*", json, json, json, no},
		{protobuf + ", */*", protobuf + "," + json, json, json, no},
		{protobuf + "," + json, protobuf + "," + json, json, json, no},
		{json + "," + protobuf, json, json, json, no},
		{json + ";q=0.5," + protobuf, protobuf + "," + json, json, json, no},
		{protobuf, protobuf, no, no, no},
		{cbor, cbor, cbor, cbor, no},
		{"application/json;q=0.9,application/cbor", cbor + "," + json, cbor + "," + json, cbor + "," + json, no},
		{"application/json,application/cbor;q=0.9", json, json, json, no},
		{cbor + ";q=1," + protobuf + ";q=0.9", cbor + "," + protobuf, cbor, cbor, no},
		{cbor + asList + "," + cbor + as + "," + json + asList, no, no, no, cbor + "," + json},
		{json + asList + "," + cbor + asList, no, no, no, ""},
		{"application/json;q=0", no, no, no, no},
		{metadata, json, json, json, ""},
		{table, no, no, no, no},
		{"/ ,;", no, no, no, no},
	} {
		for object, want := range map[any]string{
			&corev1.Pod{}: tt.pod, &custom{}: tt.custom, &unstructured.Unstructured{}: tt.unstructured, &metav1.PartialObjectMetadata{}: tt.metadata,
		} {
			got, ok := acceptFor(tt.header, reflect.TypeOf(object))
			if !ok {
				got = no
			}
			if got != want {
				t.Errorf("%q for %T: %q, want %q", tt.header, object, got, want)
			}
		}
	}
}

func TestIsCollection(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/pods":                                 true,
		"/api/v1/namespaces":                           true,
		"/api/v1/namespaces/default/pods":              true,
		"/apis/apps/v1/deployments":                    true,
		"/apis/apps/v1/namespaces/default/deployments": true,
		"/clusters/c1/apis/apps/v1/deployments":        true,
		"/api/clusters/c1/api/v1/namespaces/ns/pods":   true,
		"/api":                              false,
		"/api/v1":                           false,
		"/apis":                             false,
		"/apis/apps/v1":                     false,
		"/openapi/v3":                       false,
		"/version":                          false,
		"/api/v1/namespaces/default":        false,
		"/api/v1/namespaces/default/pods/a": false,
		"/apis/apps/v1/namespaces/default/deployments/": false,
		"": false,
	} {
		if got := isCollection(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}

func TestCollectionURL(t *testing.T) {
	u := rig.Must[*url.URL](t)(url.Parse("https://host:6443/api/v1/pods?watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&timeout=5s&timeoutSeconds=300&tenant=x&limit=500&continue=c&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
	if got, want := collectionURL(u), "https://host:6443/api/v1/pods?labelSelector=a%3Db&tenant=x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
