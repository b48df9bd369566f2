package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A newerPart is a part of version v2.
type newerPart struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Paint string `json:"paint,omitempty"`
		Count int32  `json:"count,omitempty"`
	} `json:"spec"`
}

func newer(p *part) (*newerPart, error) {
	if p.Spec.Color == "unknown" {
		return nil, errors.New("no such paint")
	}
	n := &newerPart{ObjectMeta: p.ObjectMeta}
	n.Spec.Paint, n.Spec.Count = p.Spec.Color, p.Spec.Replicas
	return n, nil
}

func older(n *newerPart) (*part, error) {
	p := &part{ObjectMeta: n.ObjectMeta}
	switch p.Spec.Color, p.Spec.Replicas = n.Spec.Paint, n.Spec.Count; n.Spec.Paint {
	case "panic":
		panic("no paint")
	case "other":
		p.Name = "other"
	case "refused":
		return nil, errors.New("not this paint")
	}
	return p, nil
}

// A kind is read and written in two versions, and stored in one.
func TestConverted(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*part]()
		noErr(t, m.Rewind("1"))
		v1 := parts
		v1.Scale = nil
		stored(b, m, v1)
		b.serve(func(ctx context.Context) error {
			return serve.ServeStore(ctx, b.h, serve.Converted(m, newer, older), serve.Resource[*newerPart]{Group: "example.io", Version: "v2", Name: "parts", Kind: "Part"})
		})
		go b.h.Collect(b.ctx)
		v2 := strings.Replace(partsPath, "v1", "v2", 1)
		for _, tt := range []struct {
			method, path, contentType, body string
			code                            int
			text                            string
		}{
			{"POST", partsPath, "", `{"metadata":{"name":"a"},"spec":{"color":"red","replicas":2}}`, 201, `"color":"red"`},
			{"GET", v2 + "/a", "", "", 200, `"spec":{"paint":"red","count":2}`},
			{"GET", v2, "", "", 200, `"apiVersion":"example.io/v2"`},
			{"GET", v2 + "?watch=1&timeoutSeconds=1&resourceVersion=1", "", "", 200, `"paint":"red"`},
			{"PUT", v2 + "/a", "", `{"metadata":{"name":"a","resourceVersion":"1"},"spec":{}}`, 409, "Conflict"},
			{"PUT", v2 + "/a", "", `{"apiVersion":"example.io/v1","kind":"Part","metadata":{"name":"a"}}`, 400, "v1"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"blue"}}`, 200, `"generation":2`},
			{"GET", partsPath + "/a", "", "", 200, `"color":"blue"`},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"panic"}}`, 500, "no paint"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"other"}}`, 500, "has become"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"refused"}}`, 500, "not this paint"},
			{"POST", v2, "", `{"metadata":{"name":"a"}}`, 409, "AlreadyExists"},
			{"PATCH", v2 + "/b?fieldManager=m", applyYAML, "apiVersion: example.io/v2\nkind: Part\nmetadata: {name: b}\nspec: {paint: red}", 201, `"apiVersion":"example.io/v2"`},
			{"PATCH", partsPath + "/b?fieldManager=n", applyYAML, "apiVersion: example.io/v1\nkind: Part\nmetadata: {name: b}\nspec: {color: green}", 200, `"manager":"m"`},
			{"GET", v2 + "/b", "", "", 200, `"paint":"green"`},
			{"PATCH", v2 + "/b?fieldManager=m", applyYAML, "apiVersion: example.io/v2\nkind: Part\nmetadata: {name: b, labels: {x: q}}\nspec: {paint: green}", 200, `"x":"q"`},
			{"PATCH", partsPath + "/b?fieldManager=n", applyYAML, "apiVersion: example.io/v1\nkind: Part\nmetadata: {name: b, labels: {x: z}}\nspec: {color: green}", 409, `\"m\"`},
			{"DELETE", v2 + "/b?propagationPolicy=Foreground", "", "", 200, ""},
			{"GET", partsPath + "/b", "", "", 404, ""},
			{"GET", "/apis/example.io", "", "", 200, `"groupVersion":"example.io/v2"`},
			{"PATCH", partsPath + "/a", mergeJSON, `{"spec":{"color":"unknown"}}`, 200, ""},
			{"GET", v2 + "/a?resourceVersion=0", "", "", 200, "blue"}, // as it was
			{"PUT", v2 + "/a", "", `{"metadata":{"name":"a"}}`, 500, "no such paint"},
		} {
			b.answers(tt.code, tt.text, tt.method, tt.path, tt.body, "Content-Type", tt.contentType)
			synctest.Wait()
		}
	})
}
