package serve

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/wire"
)

// openAPIRoot is the path of the OpenAPI documents: one that names those of all groups and versions,
// and one for each of them below it.
const openAPIRoot = "/openapi/v3"

// openAPI answers a request for an OpenAPI document. It returns false, and does nothing, if there is
// no such document.
//
// The documents say one thing: that writes may have the parameter fieldValidation. Before it creates
// or replaces an object, kubectl looks for that at the operation patch of the object's kind, and
// where it is missing kubectl wants to check the object itself, by a schema that nobody has. So the
// documents name a patch that is answered with 405. They name each kind, of whose fields nothing is
// known, for kubectl explain. With Options.Forward they are the other server's.
func (q *request) openAPI() bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(q.r.URL.Path, "/"), openAPIRoot)
	if !ok || q.h.opts.Forward != nil {
		return false
	}
	paths, schemas := map[string]any{}, map[string]any{}
	for _, c := range q.h.all() {
		groupVersion := "/apis/" + c.apiVersion()
		if c.group == "" {
			groupVersion = "/api/" + c.apiVersion()
		}
		switch rest {
		case "":
			paths[groupVersion[1:]] = map[string]string{"serverRelativeURL": openAPIRoot + groupVersion}
		case groupVersion:
			namespace := "/namespaces/{namespace}"
			if c.cluster {
				namespace = ""
			}
			kind := map[string]string{"group": c.group, "version": c.version, "kind": c.kind}
			schemas[c.apiVersion()+"."+c.kind] = map[string]any{
				"type": "object", "x-kubernetes-group-version-kind": []any{kind}, "x-kubernetes-preserve-unknown-fields": true,
			}
			paths[groupVersion+namespace+"/"+c.name+"/{name}"] = map[string]any{"patch": map[string]any{
				"x-kubernetes-group-version-kind": kind,
				"parameters": []any{map[string]any{
					"name": "fieldValidation", "in": "query", "schema": map[string]string{"type": "string"},
				}},
				"responses": map[string]any{"405": map[string]string{"description": "Method Not Allowed"}},
			}}
		}
	}
	if rest != "" && len(paths) == 0 {
		return false
	}
	q.writeOpenAPI(map[string]any{
		"openapi": "3.0.0",
		"info":    map[string]string{"title": "Kubernetes", "version": q.h.discovery.Version.GitVersion},
		"paths":   paths, "components": map[string]any{"schemas": schemas},
	})
	return true
}

func (q *request) writeOpenAPI(document map[string]any) {
	if q.r.Method != http.MethodGet && q.r.Method != http.MethodHead {
		q.w.Header().Set("Allow", http.MethodGet)
		q.fail(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: openAPIRoot[1:]}, q.attributes.Verb))
		return
	}
	f, err := wire.Negotiate(q.r.Header.Get("Accept"), wire.WantStatus, func(f wire.Format) bool { return f == wire.Format{} })
	if err != nil {
		q.fail(err)
		return
	}
	body, err := json.Marshal(document)
	if err != nil {
		q.fail(apierrors.NewInternalError(err))
		return
	}
	wire.WriteBody(q.w, f.ContentType(false), http.StatusOK, body)
}
