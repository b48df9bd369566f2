// Package widgets makes custom resources for the benchmarks.
package widgets

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/bench/internal/pods"
)

// Resource is the resource of the widgets.
var Resource = schema.GroupVersionResource{Group: "bench.example.com", Version: "v1", Resource: "widgets"}

// Kind is the kind of the widgets.
var Kind = Resource.GroupVersion().WithKind("Widget")

// New returns widget i as the custom resource of an operator would be, such as a certificate or a
// database: 2.3 KiB of JSON with labels, an owner, a spec of a few levels, three conditions and
// managed fields. It has the same resource version as pod i.
func New(i int) *unstructured.Unstructured { return widget(i, 1) }

// Reconciled returns widget i of [New] with another status, as its operator writes it: the
// conditions, what the operator has observed, and the time in its entry of the managed fields.
func Reconciled(i int) *unstructured.Unstructured { return widget(i, 2) }

// Empty returns a widget without content.
func Empty() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": Kind.GroupVersion().String(),
		"kind": Kind.Kind}}
}

// widget returns widget i with the status of the operator's n-th write.
func widget(i, n int) *unstructured.Unstructured {
	rng := rand.New(rand.NewPCG(4, uint64(i)))
	uid := fmt.Sprintf("%08x-%04x-4abc-a%03x-%012x", rng.Uint32(), rng.Uint32()&0xffff, rng.Uint32()&0xfff,
		rng.Uint64()&0xffffffffffff)
	owner := fmt.Sprintf("%08x-1234-4abc-a123-%012x", rng.Uint32(), rng.Uint64()&0xffffffffffff)
	created := time.Date(2025, 6, 1+i%28, i%24, i%60, 0, 0, time.UTC)
	written := created.Add(time.Duration(n) * 37 * time.Minute).Format(time.RFC3339)
	app := fmt.Sprintf("service-%d", i/10)
	condition := func(typ, reason, message string) any {
		return map[string]any{
			"type": typ, "status": "True", "reason": reason, "message": message, "observedGeneration": int64(3),
			"lastTransitionTime": written,
		}
	}
	w := Empty()
	w.Object["metadata"] = map[string]any{
		"name":              fmt.Sprintf("%s-%05x", app, i),
		"namespace":         fmt.Sprintf("team-%d", i/10%pods.Namespaces),
		"uid":               uid,
		"resourceVersion":   pods.Version(i),
		"generation":        int64(3),
		"creationTimestamp": created.Format(time.RFC3339),
		"labels": map[string]any{
			"app.kubernetes.io/name":       app,
			"app.kubernetes.io/instance":   app + "-prod",
			"app.kubernetes.io/managed-by": "Helm",
			pods.ZoneLabel:                 fmt.Sprintf("eu-west-1%c", 'a'+i%3),
		},
		"annotations": map[string]any{"meta.helm.sh/release-name": app, "meta.helm.sh/release-namespace": "production"},
		"ownerReferences": []any{map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "uid": owner, "controller": true,
			"blockOwnerDeletion": true,
		}},
		"managedFields": []any{
			map[string]any{
				"manager": "helm", "operation": "Update", "apiVersion": Kind.GroupVersion().String(),
				"time": created.Format(time.RFC3339), "fieldsType": "FieldsV1",
				"fieldsV1": fields("labels", "annotations", "replicas", "image", "storage", "backup"),
			},
			map[string]any{
				"manager": "operator", "operation": "Update", "apiVersion": Kind.GroupVersion().String(), "time": written,
				"fieldsType": "FieldsV1",
				"fieldsV1":   fields("conditions", "observedGeneration", "endpoint", "readyReplicas"), "subresource": "status",
			},
		},
	}
	w.Object["spec"] = map[string]any{
		"replicas": int64(3),
		"image":    "registry.example.com/team/" + app + ":v1.2.3",
		"storage":  map[string]any{"size": "20Gi", "class": "fast", "encrypted": true},
		"backup":   map[string]any{"schedule": "0 3 * * *", "keep": int64(14), "bucket": "s3://backups/" + app},
		"rules": []any{
			map[string]any{"host": app + ".example.com", "path": "/", "port": int64(8080), "weight": 0.5},
			map[string]any{"host": app + ".internal", "path": "/metrics", "port": int64(9090), "weight": 0.25},
		},
		"tls": map[string]any{"issuer": "letsencrypt-production", "secretName": app + "-tls",
			"dnsNames": []any{app + ".example.com", app + ".internal"}},
		"suspended": false,
	}
	w.Object["status"] = map[string]any{
		"observedGeneration": int64(3),
		"readyReplicas":      int64(n),
		"endpoint":           fmt.Sprintf("10.96.%d.%d:5432", i/250%250, i%250),
		"conditions": []any{
			condition("Ready", "Reconciled", fmt.Sprintf("%d of 3 replicas are ready", n)),
			condition("Progressing", "Stable", "The revision is rolled out"),
			condition("BackupSucceeded", "Completed", "The last backup took 41 s"),
		},
	}
	return w
}

// fields returns the managed fields of the fields with these names.
func fields(names ...string) map[string]any {
	set := map[string]any{}
	for _, name := range names {
		set["f:"+name] = map[string]any{}
	}
	return map[string]any{"f:spec": set}
}
