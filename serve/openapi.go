package serve

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// openAPIRoot is the path of the OpenAPI documents: one that names those of all groups and
// versions, and one for each of them below it.
const openAPIRoot = "/openapi/v3"

// openAPI answers a request for an OpenAPI document. It returns false, and does nothing, if there
// is no such document.
//
// The documents describe the kinds, for kubectl explain, and name the operation patch of each, of
// which kubectl wants to know which formats it takes, and that writes may have the parameters
// fieldValidation and dryRun. A collection that clients only read has it, too, and answers it with
// 405.
func (q *request) openAPI() bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(q.r.URL.Path, "/"), openAPIRoot)
	if !ok {
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
			described, bodies := (&registry.Kind{}).OpenAPI(), map[string]any{}
			if c.writes != nil {
				described = c.writes.kind.OpenAPI()
				for _, t := range c.writes.kind.PatchTypes() {
					bodies[t] = map[string]any{"schema": map[string]string{"type": "object"}}
				}
			}
			described["x-kubernetes-group-version-kind"] = []any{kind}
			schemas[c.apiVersion()+"."+c.kind] = described
			var parameters []any
			for _, name := range []string{"dryRun", "fieldManager", "fieldValidation", "force"} {
				parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": map[string]string{"type": "string"}})
			}
			paths[groupVersion+namespace+"/"+c.name+"/{name}"] = map[string]any{"patch": map[string]any{
				"x-kubernetes-group-version-kind": kind, "parameters": parameters, "requestBody": map[string]any{"content": bodies},
				"responses": map[string]any{"200": map[string]string{"description": "OK"}},
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
